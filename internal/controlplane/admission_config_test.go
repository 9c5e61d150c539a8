package controlplane

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mainstay.dev/mainstay/internal/admission/config"
)

// TestAdmissionConfig checks that plugins use the configuration in files and flags.
func TestAdmissionConfig(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "admission.yaml")
	text := `
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: PodSecurity
  configuration:
    apiVersion: pod-security.admission.config.k8s.io/v1
    kind: PodSecurityConfiguration
    defaults: {enforce: baseline}
    exemptions: {usernames: [trusted]}
- name: EventRateLimit
  configuration:
    apiVersion: eventratelimit.admission.k8s.io/v1alpha1
    kind: Configuration
    limits: [{type: Namespace, qps: 1, burst: 1}]
- name: PodNodeSelector
  configuration: {podNodeSelectorPluginConfig: {clusterDefaultNodeSelector: a=b}}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	read, err := config.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	env, seconds := newEnv(t), int64(7)
	env.Identity.Authenticator = byHeader{}
	c, err := New(env, "/configured", Options{
		Admission:     AdmissionOptions{Config: read, EnablePlugins: []string{"EventRateLimit", "PodNodeSelector"}, DefaultUnreachableTolerationSeconds: &seconds},
		Authorization: AuthorizationOptions{Modes: []string{"AlwaysAllow"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	pod := `{"metadata":{"name":"p"},"spec":{"hostNetwork":true,"containers":[{"name":"c","image":"i"}]}}`
	as(t, c, "jane", "POST", pods, pod, 403, `violates PodSecurity \"baseline:latest\": host namespaces (hostNetwork=true)`)
	as(t, c, "trusted", "POST", pods, pod, 201, `"nodeSelector":{"a":"b"}`)
	as(t, c, "jane", "GET", pods+"/p", "", 200, `"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":7`)
	event := `{"metadata":{"name":"NAME"},"involvedObject":{"namespace":"default"}}`
	const events = "/api/v1/namespaces/default/events"
	as(t, c, "jane", "POST", events, strings.Replace(event, "NAME", "a", 1), 201, "")
	as(t, c, "jane", "POST", events, strings.Replace(event, "NAME", "b", 1), 429, "limit reached on type Namespace for key default")
}

// TestAdmissionConfigNeeded checks that a plugin that requires a configuration cannot be enabled without it.
func TestAdmissionConfigNeeded(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"EventRateLimit", "ImagePolicyWebhook"} {
		err := Options{Admission: AdmissionOptions{EnablePlugins: []string{name}}}.WithDefaults().Check()
		if err == nil || !strings.Contains(err.Error(), "--enable-admission-plugins="+name+" needs its configuration") {
			t.Errorf("enable %s without its configuration: error %v", name, err)
		}
	}
}
