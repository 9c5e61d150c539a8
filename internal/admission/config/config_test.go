package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"mainstay.dev/mainstay/internal/admission/config"
	"mainstay.dev/mainstay/internal/admission/podsecurity"
)

const header = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n"

// write writes a file and returns its path.
func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestRead checks a configuration of all plugins, some of them in separate files.
func TestRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "events.yaml", `
apiVersion: eventratelimit.admission.k8s.io/v1alpha1
kind: Configuration
limits: [{type: Namespace, qps: 50, burst: 100, cacheSize: 2000}, {type: Server, qps: 1, burst: 2}]`)
	write(t, dir, "nodes.yaml", `
podNodeSelectorPluginConfig:
  clusterDefaultNodeSelector: env=dev
  a: "env=prod,disk=fast"`)
	kubeconfig := write(t, t.TempDir(), "kubeconfig", `{"clusters":[{"name":"c","cluster":{"server":"https://images.example"}}],"users":[{"name":"u"}],"contexts":[{"name":"x","context":{"cluster":"c","user":"u"}}],"current-context":"x"}`)
	images := write(t, t.TempDir(), "images.json", `{"imagePolicy":{"kubeConfigFile":"`+kubeconfig+`","allowTTL":50,"denyTTL":-1,"defaultAllow":true}}`)
	path := write(t, dir, "admission.yaml", header+`
- name: PodSecurity
  configuration:
    apiVersion: pod-security.admission.config.k8s.io/v1
    kind: PodSecurityConfiguration
    defaults: {enforce: baseline, enforce-version: v1.30, audit: restricted}
    exemptions: {usernames: [u], namespaces: [kube-system], runtimeClasses: [r]}
- {name: EventRateLimit, path: events.yaml}
- {name: PodNodeSelector, path: ./nodes.yaml}
- {name: ImagePolicyWebhook, path: `+images+`}
- name: PodTolerationRestriction
  configuration:
    apiVersion: podtolerationrestriction.admission.k8s.io/v1alpha1
    kind: Configuration
    default: [{key: a, operator: Exists}]
    whitelist: [{key: a, operator: Exists}, {key: b, value: c}]
- name: ResourceQuota
  configuration:
    apiVersion: apiserver.config.k8s.io/v1
    kind: ResourceQuotaConfiguration
    limitedResources: [{resource: pods, matchScopes: [{scopeName: PriorityClass, operator: In, values: [x]}]}]
- name: ValidatingAdmissionWebhook
  configuration: {apiVersion: apiserver.config.k8s.io/v1, kind: WebhookAdmissionConfiguration, kubeConfigFile: /path}
- name: ValidatingAdmissionPolicy
  configuration: {apiVersion: apiserver.config.k8s.io/v1, kind: ValidatingAdmissionPolicyConfiguration, staticManifestsDir: `+dir+`}
`)
	c, err := config.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"PodSecurity", "EventRateLimit", "PodNodeSelector", "ImagePolicyWebhook", "PodTolerationRestriction", "ResourceQuota", "ValidatingAdmissionWebhook", "ValidatingAdmissionPolicy"}, c.Configured()); diff != "" {
		t.Error(diff)
	}
	if got := c.PodSecurity.Defaults; got.Enforce.String() != "baseline:v1.30" || got.Audit.String() != "restricted:latest" || got.Warn != (podsecurity.LevelVersion{}) {
		t.Errorf("policy %v", got)
	}
	if c.ImagePolicyWebhook.Client == nil {
		t.Error("no client of the webhook")
	}
	c.ImagePolicyWebhook.Client = nil
	for what, diff := range map[string]string{
		"exemptions":  cmp.Diff(config.Exemptions{Usernames: []string{"u"}, Namespaces: []string{"kube-system"}, RuntimeClasses: []string{"r"}}, c.PodSecurity.Exemptions),
		"limits":      cmp.Diff([]config.EventLimit{{Type: config.LimitNamespace, QPS: 50, Burst: 100, CacheSize: 2000}, {Type: config.LimitServer, QPS: 1, Burst: 2}}, c.EventRateLimit.Limits),
		"default":     cmp.Diff(labels.Set{"env": "dev"}, c.PodNodeSelector.Default),
		"allowed":     cmp.Diff(labels.Set{"env": "prod", "disk": "fast"}, c.PodNodeSelector.Allowed["a"]),
		"images":      cmp.Diff(config.ImagePolicyWebhook{URL: "https://images.example", AllowTTL: 50 * time.Second, RetryBackoff: 500 * time.Millisecond, DefaultAllow: true}, c.ImagePolicyWebhook),
		"tolerations": cmp.Diff([]corev1.Toleration{{Key: "a", Operator: corev1.TolerationOpExists}}, c.PodTolerationRestriction.Default),
		"quota": cmp.Diff([]config.LimitedResource{{Resource: "pods", MatchScopes: []corev1.ScopedResourceSelectorRequirement{
			{ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: corev1.ScopeSelectorOpIn, Values: []string{"x"}}}}}, c.ResourceQuota.LimitedResources),
		"webhooks": cmp.Diff("/path", c.ValidatingAdmissionWebhook.KubeConfigFile),
		"policies": cmp.Diff(dir, c.ValidatingAdmissionPolicy.StaticManifestsDir),
	} {
		if diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
}

// TestReadEmptyPath checks that an empty path results in the zero Config.
func TestReadEmptyPath(t *testing.T) {
	t.Parallel()
	c, err := config.Read("")
	if err != nil || len(c.Configured()) > 0 || c.PodSecurity.Defaults != (podsecurity.Policy{}) {
		t.Errorf("read an empty path: config %v, error %v; want the zero Config", c, err)
	}
}

// TestReadErrors checks that each error message is one line that contains the names of the file and of the
// plugin.
func TestReadErrors(t *testing.T) {
	t.Parallel()
	security := func(text string) string {
		return header + "- name: PodSecurity\n  configuration: {apiVersion: pod-security.admission.config.k8s.io/v1, kind: PodSecurityConfiguration, " + text + "}"
	}
	inline := func(name, text string) string {
		return header + "- {name: " + name + ", configuration: {" + text + "}}"
	}
	images := func(text string) string {
		return inline("ImagePolicyWebhook", "imagePolicy: {kubeConfigFile: x, "+text+"}")
	}
	tests := []struct{ name, text, want string }{
		{"empty", "", `unsupported type "", ""; must be apiserver.config.k8s.io/v1, AdmissionConfiguration`},
		{"no YAML", "\t{", "yaml: "},
		{"another kind", "apiVersion: v1\nkind: Pod", `unsupported type "v1", "Pod"; must be`},
		{"unknown field", header + "- {name: PodSecurity, pathh: x}", `unknown field "pathh"`},
		{"unknown plugin", header + "- {name: Nope}", `plugin "Nope" has no configuration`},
		{"twice", header + "- {name: PodSecurity}\n- {name: PodSecurity}", "plugin PodSecurity is configured twice"},
		{"no such file", header + "- {name: PodSecurity, path: nope.yaml}", "plugin PodSecurity: open "},
		{"level", security("defaults: {enforce: x, audit-version: z}"),
			`plugin PodSecurity: [defaults.enforce: Invalid value: "x": must be one of privileged, baseline, restricted, defaults.audit-version: Invalid value: "z": must be "latest" or "v1.x"]`},
		{"exemptions", security("exemptions: {usernames: [''], namespaces: [A, b, b], runtimeClasses: [_]}"), `exemptions.namespaces[2]: Duplicate value: "b"`},
		{"unknown field of a plugin", security("deflaults: {}"), `unknown field "deflaults"`},
		{"version of a plugin", inline("PodSecurity", "apiVersion: v9, kind: PodSecurityConfiguration"), `unsupported type "v9", "PodSecurityConfiguration"`},
		{"no limits", inline("EventRateLimit", "apiVersion: eventratelimit.admission.k8s.io/v1alpha1, kind: Configuration"), "limits: Invalid value: null: must not be empty"},
		{"bad limits", inline("EventRateLimit", "apiVersion: eventratelimit.admission.k8s.io/v1alpha1, kind: Configuration, limits: [{type: X, cacheSize: -1}]"), `limits[0].type: Unsupported value: "X"`},
		{"no limits at all", header + "- {name: EventRateLimit}", `plugin EventRateLimit: unsupported type "", ""`},
		{"selector", inline("PodNodeSelector", "podNodeSelectorPluginConfig: {a: '=,='}"), "plugin PodNodeSelector: podNodeSelectorPluginConfig.a: "},
		{"toleration", inline("PodTolerationRestriction", "apiVersion: podtolerationrestriction.admission.k8s.io/v1alpha1, kind: Configuration, whitelist: [{key: a}, {value: b}]"), "whitelist[1]: operator must be Exists when key is empty"},
		{"null", header + "- {name: ImagePolicyWebhook, configuration: null}", "imagePolicy.kubeConfigFile: Required value"},
		{"quota", inline("ResourceQuota", "apiVersion: apiserver.config.k8s.io/v1, kind: ResourceQuotaConfiguration, limitedResources: [{}]"), "limitedResources[0].resource: Required value"},
		{"webhooks", inline("MutatingAdmissionWebhook", "apiVersion: apiserver.config.k8s.io/v1, kind: WebhookAdmissionConfiguration, kubeConfigFile: x"), `kubeConfigFile: Invalid value: "x": must be an absolute file path`},
		{"manifests", inline("MutatingAdmissionWebhook", "apiVersion: apiserver.config.k8s.io/v1, kind: WebhookAdmissionConfiguration, staticManifestsDir: x"), `staticManifestsDir: Invalid value: "x": must be an absolute file path`},
		{"manifests of policies", inline("MutatingAdmissionPolicy", "apiVersion: apiserver.config.k8s.io/v1, kind: MutatingAdmissionPolicyConfiguration, staticManifestsDir: /dev/null"), `staticManifestsDir: Invalid value: "/dev/null": must be a directory`},
		{"of another plugin", inline("MutatingAdmissionPolicy", "apiVersion: apiserver.config.k8s.io/v1, kind: ValidatingAdmissionPolicyConfiguration"), "must be apiserver.config.k8s.io/v1, MutatingAdmissionPolicyConfiguration"},
		{"time to live", images("allowTTL: 1801"), "imagePolicy.allowTTL: valid value is between 1s and 30m0s, got 1801"},
		{"time to live overflows", images("denyTTL: 9223372036854775807"), "imagePolicy.denyTTL: valid value"},
		{"backoff", images("retryBackoff: -2"), "imagePolicy.retryBackoff: valid value is between 1ns and 5m0s, got -2"},
		{"no kubeconfig", images("denyTTL: 30"), "plugin ImagePolicyWebhook: read the kubeconfig: open x"},
		{"no webhook", inline("ImagePolicyWebhook", "imagePolicy: {}"), "imagePolicy.kubeConfigFile: Required value"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := write(t, t.TempDir(), "admission.yaml", tt.text)
			_, err := config.Read(path)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v\nwant one line with %s and %s", err, path, tt.want)
			}
		})
	}
}
