package controlplane

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"mainstay.dev/mainstay/internal/controllers/namespace"
	"mainstay.dev/mainstay/internal/controllers/serviceaccounts"
	"mainstay.dev/mainstay/internal/filters/audit"
)

// TestAuditOfControllers checks that the writes of controllers are audited like the writes of
// kube-controller-manager, at the level of the policy.
func TestAuditOfControllers(t *testing.T) {
	t.Parallel()
	p := newAuditedPlane(t, `omitStages: [RequestReceived]
rules:
- {level: RequestResponse, userGroups: ["system:serviceaccounts:kube-system"]}
- {level: Metadata, users: ["system:apiserver"], resources: [{resources: [namespaces]}]}`, serviceaccounts.Name, namespace.Name)
	if code, body := send(t, p.ControlPlane, "POST", "/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a"}}`); code != http.StatusCreated {
		t.Fatalf("create the namespace: %d %s", code, body)
	}
	created := p.await(t, func(e *audit.Event) bool { return e.Verb == "create" && e.ObjectRef.Namespace == "a" })
	if created.User.Username != "system:serviceaccount:kube-system:service-account-controller" ||
		!slices.Contains(created.User.Groups, "system:authenticated") ||
		created.ObjectRef.Resource != "serviceaccounts" || created.ObjectRef.Name != "default" || created.ObjectRef.APIVersion != "v1" ||
		created.RequestURI != "/api/v1/namespaces/a/serviceaccounts" || created.ResponseStatus.Code != 201 ||
		created.Stage != audit.StageResponseComplete || created.AuditID == "" || created.Level != audit.LevelRequestResponse ||
		created.Annotations["authorization.k8s.io/decision"] != "allow" ||
		!strings.Contains(created.Annotations["authorization.k8s.io/reason"], `ClusterRoleBinding "system:controller:service-account-controller"`) {
		t.Errorf("the creation is %+v", created)
	}
	for what, body := range map[string][]byte{"request": created.RequestObject, "response": created.ResponseObject} {
		var object struct{ Kind, APIVersion string }
		if err := json.Unmarshal(body, &object); err != nil || object.Kind != "ServiceAccount" || object.APIVersion != "v1" {
			t.Errorf("the body of the %s is %s: %v", what, body, err)
		}
	}

	if code, body := send(t, p.ControlPlane, "DELETE", "/api/v1/namespaces/a", ""); code != http.StatusOK {
		t.Fatalf("delete the namespace: %d %s", code, body)
	}
	emptied := p.await(t, func(e *audit.Event) bool { return e.Verb == "deletecollection" })
	if emptied.User.Username != "system:serviceaccount:kube-system:namespace-controller" || emptied.ObjectRef.Resource != "serviceaccounts" ||
		emptied.ObjectRef.Namespace != "a" || emptied.ObjectRef.Name != "" || emptied.ResponseStatus.Code != 200 {
		t.Errorf("the deletion is %+v", emptied)
	}
	finalized := p.await(t, func(e *audit.Event) bool { return e.ObjectRef.Subresource == "finalize" })
	if finalized.Verb != "update" || finalized.ObjectRef.Name != "a" || finalized.RequestURI != "/api/v1/namespaces/a/finalize" || finalized.ObjectRef.UID == "" {
		t.Errorf("the finalization is %+v", finalized)
	}
	system := p.await(t, func(e *audit.Event) bool {
		return e.User.Username == "system:apiserver" && e.ObjectRef.Name == "kube-system"
	})
	if system.Verb != "create" || system.Level != audit.LevelMetadata || system.RequestObject != nil || system.SourceIPs[0] != "::1" {
		t.Errorf("the server's own creation is %+v", system)
	}
}

// await waits until the log contains an event for which is returns true, and returns this event.
func (p *auditedPlane) await(t *testing.T, is func(*audit.Event) bool) *audit.Event {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		text, err := os.ReadFile(p.log)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.SplitAfter(string(text), "\n")
		for _, line := range lines[:len(lines)-1] {
			event := &audit.Event{}
			if err := json.Unmarshal([]byte(line), event); err != nil {
				t.Fatal(fmt.Errorf("%s: %w", line, err))
			}
			if event.ObjectRef != nil && is(event) {
				return event
			}
		}
	}
	t.Fatal("the expected event was not recorded")
	return nil
}
