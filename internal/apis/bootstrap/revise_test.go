package bootstrap

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestReviseRole(t *testing.T) {
	t.Parallel()
	wanted := aggregatesTo("view", clusterRole("a", allow("get list", "core apps", "pods"), urls("get", "/healthz")))
	full := wanted.Rules
	own := allow("delete", "example.com", "widgets")
	tests := []struct {
		name    string
		change  func(*rbacv1.ClusterRole)
		rules   []rbacv1.PolicyRule
		changed bool
	}{
		{"unchanged", func(*rbacv1.ClusterRole) {}, full, false},
		{"additional rule", func(r *rbacv1.ClusterRole) { r.Rules = append(r.Rules, own) }, append(full[:2:2], own), false},
		{"covered by other rules", func(r *rbacv1.ClusterRole) {
			r.Rules = []rbacv1.PolicyRule{allow("*", "*", "pods"), urls("*", "/health*")}
		}, []rbacv1.PolicyRule{allow("*", "*", "pods"), urls("*", "/health*")}, false},
		{"missing permissions", func(r *rbacv1.ClusterRole) { r.Rules = []rbacv1.PolicyRule{own, allow("get list", "core", "pods")} },
			[]rbacv1.PolicyRule{own, allow("get list", "core", "pods"), allow("get", "apps", "pods"), allow("list", "apps", "pods"), urls("get", "/healthz")}, true},
		{"auto-update disabled", func(r *rbacv1.ClusterRole) {
			r.Annotations[rbacv1.AutoUpdateAnnotationKey] = "false"
			r.Rules = nil
		}, nil, false},
		{"without its label", func(r *rbacv1.ClusterRole) { delete(r.Labels, bootstrappingLabel) }, full, true},
		{"with another label value", func(r *rbacv1.ClusterRole) { r.Labels[bootstrappingLabel] = "mine" }, full, false},
		{"without annotations", func(r *rbacv1.ClusterRole) { r.Annotations = nil }, full, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			existing := wanted.DeepCopy()
			tt.change(existing)
			if changed := reviseRole(existing, wanted); changed != tt.changed {
				t.Errorf("changed is %t", changed)
			}
			if diff := cmp.Diff(tt.rules, existing.Rules); diff != "" {
				t.Errorf("rules (-want +got):\n%s", diff)
			}
			if reviseRole(existing, wanted) {
				t.Error("a second call changes the role")
			}
		})
	}
}

func TestReviseAggregatedRole(t *testing.T) {
	t.Parallel()
	wanted := aggregatedFrom("edit", clusterRole("edit"))
	existing := wanted.DeepCopy()
	existing.Rules = []rbacv1.PolicyRule{allow("get", "core", "pods")} // as set by the aggregation controller
	own := metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	existing.AggregationRule.ClusterRoleSelectors = []metav1.LabelSelector{own}
	if !reviseRole(existing, wanted) || len(existing.Rules) != 1 || len(existing.AggregationRule.ClusterRoleSelectors) != 2 {
		t.Errorf("the role is %+v", existing)
	}
	if reviseRole(existing, wanted) {
		t.Error("a second call changes the role")
	}
}

func TestReviseBinding(t *testing.T) {
	t.Parallel()
	wanted := clusterBinding("a", "role", group("system:masters"), user("jane"))
	existing := wanted.DeepCopy()
	existing.Subjects = []rbacv1.Subject{account("own"), user("jane")}
	if !reviseBinding(existing, wanted) {
		t.Error("the binding does not change")
	}
	if diff := cmp.Diff([]rbacv1.Subject{account("own"), user("jane"), group("system:masters")}, existing.Subjects); diff != "" {
		t.Errorf("subjects (-want +got):\n%s", diff)
	}
	if reviseBinding(existing, wanted) || otherRole(existing, wanted) {
		t.Error("a second call changes the binding")
	}
	existing.RoleRef.Name = "other"
	if !otherRole(existing, wanted) {
		t.Error("a binding of another role is not replaced")
	}
	existing.Annotations[rbacv1.AutoUpdateAnnotationKey] = "false"
	if otherRole(existing, wanted) {
		t.Error("the binding is replaced although its annotation disables this")
	}
}

func TestUncovered(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name         string
		have, wanted rbacv1.PolicyRule
		missing      []rbacv1.PolicyRule
	}{
		{"subresources by an asterisk", allow("get", "core", "*/status"), allow("get", "core", "pods/status"), nil},
		{"but not the resource", allow("get", "core", "*/status"), allow("get", "core", "pods"), []rbacv1.PolicyRule{allow("get", "core", "pods")}},
		{"all names cover one", allow("get", "core", "pods"), allow("get", "core", "pods", "a"), nil},
		{"one name does not cover all", allow("get", "core", "pods", "a"), allow("get", "core", "pods"), []rbacv1.PolicyRule{allow("get", "core", "pods")}},
		{"nor another name", allow("get", "core", "pods", "a"), allow("get", "core", "pods", "a", "b"), []rbacv1.PolicyRule{allow("get", "core", "pods", "b")}},
		{"everything is no path", allow("*", "*", "*"), urls("get", "/a"), []rbacv1.PolicyRule{urls("get", "/a")}},
		{"every path is no resource", urls("*", "*"), allow("get", "core", "pods"), []rbacv1.PolicyRule{allow("get", "core", "pods")}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.missing, uncovered([]rbacv1.PolicyRule{tt.have}, []rbacv1.PolicyRule{tt.wanted})); diff != "" {
				t.Errorf("missing (-want +got):\n%s", diff)
			}
		})
	}
}

// TestReviseFlowSchema checks that changes by administrators are preserved, except changes to mandatory
// objects.
func TestReviseFlowSchema(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, schema string
		annotation   map[string]string
		generation   int64
		restored     bool
		marked       string
	}{
		{"auto-update enabled", "service-accounts", map[string]string{flowcontrolv1.AutoUpdateAnnotationKey: "true"}, 2, true, "true"},
		{"auto-update disabled", "service-accounts", map[string]string{flowcontrolv1.AutoUpdateAnnotationKey: "false"}, 2, false, "false"},
		{"changed without annotation", "service-accounts", nil, 2, false, "false"},
		{"never changed", "service-accounts", nil, 1, true, "true"},
		{"invalid annotation", "service-accounts", map[string]string{flowcontrolv1.AutoUpdateAnnotationKey: "perhaps"}, 2, false, "false"},
		{"mandatory", "catch-all", map[string]string{flowcontrolv1.AutoUpdateAnnotationKey: "false"}, 2, true, "true"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			wanted := flowSchema(tt.schema, "a", 7, "", everything(flowGroup("g")))
			existing := wanted.DeepCopy()
			existing.Annotations, existing.Generation, existing.Spec.MatchingPrecedence = maps.Clone(tt.annotation), tt.generation, 99
			reviseFlowSchema(existing, wanted)
			if restored := existing.Spec.MatchingPrecedence == 7; restored != tt.restored {
				t.Errorf("restored is %t", restored)
			}
			if marked := existing.Annotations[flowcontrolv1.AutoUpdateAnnotationKey]; marked != tt.marked {
				t.Errorf("marked %q, want %q", marked, tt.marked)
			}
			if reviseFlowSchema(existing, wanted) {
				t.Error("a second call changes the flow schema")
			}
		})
	}
}

func TestRevisePriorityLevel(t *testing.T) {
	t.Parallel()
	wanted := exemptLevel("exempt")
	existing := wanted.DeepCopy()
	*existing.Spec.Exempt.NominalConcurrencyShares = 5
	if revisePriorityLevel(existing, wanted) || *existing.Spec.Exempt.NominalConcurrencyShares != 5 {
		t.Error("the shares that an administrator has set were changed")
	}
	limited := limitedLevel("catch-all", 5, 0, nil)
	changed := limited.DeepCopy()
	*changed.Spec.Limited.NominalConcurrencyShares = 50
	if !revisePriorityLevel(changed, limited) || *changed.Spec.Limited.NominalConcurrencyShares != 5 {
		t.Error("a mandatory level is not restored")
	}
}

func TestReviseServiceCIDR(t *testing.T) {
	t.Parallel()
	cidr := func(cidrs ...string) *networkingv1.ServiceCIDR {
		return &networkingv1.ServiceCIDR{Spec: networkingv1.ServiceCIDRSpec{CIDRs: cidrs}}
	}
	tests := []struct {
		name        string
		is, should  *networkingv1.ServiceCIDR
		want        []string
		wantChanged bool
	}{
		{"a second range", cidr("10.0.0.0/24"), cidr("10.0.0.0/24", "fd00::/112"), []string{"10.0.0.0/24", "fd00::/112"}, true},
		{"another range", cidr("10.1.0.0/24"), cidr("10.0.0.0/24", "fd00::/112"), []string{"10.1.0.0/24"}, false},
		{"one range of two", cidr("10.0.0.0/24", "fd00::/112"), cidr("10.0.0.0/24"), []string{"10.0.0.0/24", "fd00::/112"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			changed := reviseServiceCIDR(tt.is, tt.should)
			if diff := cmp.Diff(tt.want, tt.is.Spec.CIDRs); diff != "" || changed != tt.wantChanged {
				t.Errorf("changed is %t; ranges (-want +got):\n%s", changed, diff)
			}
		})
	}
}
