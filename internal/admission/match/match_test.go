package match_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"weak"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/admission/match"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
)

// namespaces contains the labels of namespaces by name. Reading the namespace "broken" fails.
type namespaces map[string]map[string]string

func (n namespaces) Get(_ context.Context, name types.NamespacedName) (*corev1.Namespace, error) {
	if name.Name == "broken" {
		return nil, errors.New("no answer")
	}
	set, ok := n[name.Name]
	if !ok {
		return nil, apierrors.NewNotFound(corev1.Resource("namespaces"), name.Name)
	}
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name.Name, Labels: set}}, nil
}

func resource(group, version, name, subresource string) *rest.Resource {
	gv := schema.GroupVersion{Group: group, Version: version}
	return &rest.Resource{GroupVersion: gv, Name: name, Subresource: subresource, Version: &codec.Version{GVK: gv.WithKind("K")}}
}

func labeled(set map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Labels: set}}
}

type (
	rules  = []admissionregistrationv1.NamedRuleWithOperations
	labels = map[string]string
)

// rule returns a rule for creates and updates in all scopes. Without names, it applies to objects of any name.
func rule(group, version, resource string, names ...string) admissionregistrationv1.NamedRuleWithOperations {
	return admissionregistrationv1.NamedRuleWithOperations{ResourceNames: names, RuleWithOperations: admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{"CREATE", "UPDATE"},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{version}, Resources: []string{resource}},
	}}
}

func scoped(scope admissionregistrationv1.ScopeType, r admissionregistrationv1.NamedRuleWithOperations) admissionregistrationv1.NamedRuleWithOperations {
	r.Scope = &scope
	return r
}

func TestRules(t *testing.T) {
	t.Parallel()
	deployments := resource("apps", "v1", "deployments", "")
	equivalent, exact := admissionregistrationv1.Equivalent, admissionregistrationv1.Exact
	all := rule("*", "*", "*")
	for name, test := range map[string]struct {
		criteria admissionregistrationv1.MatchResources
		asked    admission.Request // default: a creation in namespace "a"
		want     string            // group/version/resource/subresource; empty for no match
	}{
		"no rules": {want: "apps/v1/deployments/"},
		"exactly":  {criteria: admissionregistrationv1.MatchResources{ResourceRules: rules{rule("apps", "v1", "deployments")}}, want: "apps/v1/deployments/"},
		"another version": {criteria: admissionregistrationv1.MatchResources{
			ResourceRules: rules{rule("apps", "v1beta1", "deployments")}, MatchPolicy: &exact,
		}},
		"another version that is equivalent": {criteria: admissionregistrationv1.MatchResources{
			ResourceRules: rules{rule("batch", "v1", "jobs"), rule("old", "v1", "deployments"), rule("apps", "v1beta1", "deployments")}, MatchPolicy: &equivalent,
		}, want: "old/v1/deployments/"},
		"requested before equivalent": {criteria: admissionregistrationv1.MatchResources{
			ResourceRules: rules{rule("old", "v1", "deployments"), rule("apps", "v1", "deployments")}, MatchPolicy: &equivalent,
		}, want: "apps/v1/deployments/"},
		"equivalent, by all names": {criteria: admissionregistrationv1.MatchResources{ResourceRules: rules{rule("old", "*", "*")}, MatchPolicy: &equivalent}, want: "old/v1/deployments/"},
		"another operation":        {criteria: admissionregistrationv1.MatchResources{ResourceRules: rules{all}}, asked: admission.Request{Operation: admission.Delete}},
		"one object":               {criteria: admissionregistrationv1.MatchResources{ResourceRules: rules{rule("apps", "v1", "deployments", "x", "y")}}, asked: admission.Request{Name: "y"}, want: "apps/v1/deployments/"},
		"another object":           {criteria: admissionregistrationv1.MatchResources{ResourceRules: rules{rule("apps", "v1", "deployments", "x", "y")}}, asked: admission.Request{Name: "z"}},
		"* is no subresource":      {criteria: admissionregistrationv1.MatchResources{ResourceRules: rules{all}}, asked: admission.Request{Resource: resource("apps", "v1", "deployments", "scale")}},
		"*/*":                      {criteria: admissionregistrationv1.MatchResources{ResourceRules: rules{rule("*", "*", "*/*")}}, asked: admission.Request{Resource: resource("apps", "v1", "deployments", "scale")}, want: "apps/v1/deployments/scale"},
		"*/* is the resource too":  {criteria: admissionregistrationv1.MatchResources{ResourceRules: rules{rule("*", "*", "*/*")}}, want: "apps/v1/deployments/"},
		"*/scale":                  {criteria: admissionregistrationv1.MatchResources{ResourceRules: rules{rule("*", "*", "*/scale")}}, asked: admission.Request{Resource: resource("apps", "v1", "deployments", "scale")}, want: "apps/v1/deployments/scale"},
		"pods/*":                   {criteria: admissionregistrationv1.MatchResources{ResourceRules: rules{rule("*", "*", "pods/*")}}, asked: admission.Request{Resource: resource("apps", "v1", "deployments", "scale")}},
		"excluded":                 {criteria: admissionregistrationv1.MatchResources{ResourceRules: rules{all}, ExcludeResourceRules: rules{rule("apps", "*", "*")}}},
		"excluded, as another":     {criteria: admissionregistrationv1.MatchResources{ExcludeResourceRules: rules{rule("old", "*", "*")}, MatchPolicy: &equivalent}},
		"another is excluded":      {criteria: admissionregistrationv1.MatchResources{ExcludeResourceRules: rules{rule("old", "*", "*")}, MatchPolicy: &exact}, want: "apps/v1/deployments/"},
		"in a namespace":           {criteria: admissionregistrationv1.MatchResources{ResourceRules: rules{scoped("Namespaced", all)}}, want: "apps/v1/deployments/"},
		"in none, but is":          {criteria: admissionregistrationv1.MatchResources{ResourceRules: rules{scoped("Cluster", all)}}},
		"in none": {criteria: admissionregistrationv1.MatchResources{ResourceRules: rules{scoped("Cluster", all)}},
			asked: admission.Request{Resource: resource("", "v1", "nodes", ""), Namespace: "-"}, want: "/v1/nodes/"},
		"a namespace is in none": {criteria: admissionregistrationv1.MatchResources{ResourceRules: rules{scoped("Cluster", rule("", "v1", "*/*"))}},
			asked: admission.Request{Resource: resource("", "v1", "namespaces", "status")}, want: "/v1/namespaces/status"},
		"a namespace is not in itself": {criteria: admissionregistrationv1.MatchResources{ResourceRules: rules{scoped("Namespaced", all)}},
			asked: admission.Request{Resource: resource("", "v1", "namespaces", "")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := test.asked
			if asked.Resource == nil {
				asked.Resource = deployments
			}
			if asked.Operation == "" {
				asked.Operation = admission.Create
			}
			switch asked.Namespace {
			case "":
				asked.Namespace = "a"
			case "-":
				asked.Namespace = ""
			}
			asked.EquivalentsOf = func(r *rest.Resource) []*rest.Resource {
				return []*rest.Resource{r, resource("apps", "v1beta1", r.Name, r.Subresource), resource("old", "v1", r.Name, r.Subresource)}
			}
			subject := &match.Subject{Attributes: &admission.Attributes{Request: asked, Object: labeled(nil)}}
			got, err := match.New(&test.criteria).Match(t.Context(), subject)
			if err != nil {
				t.Fatal(err)
			}
			if name := nameOf(got); name != test.want {
				t.Errorf("%q, want %q", name, test.want)
			}
		})
	}
}

func nameOf(r *rest.Resource) string {
	if r == nil {
		return ""
	}
	return fmt.Sprintf("%s/%s/%s/%s", r.GroupVersion.Group, r.GroupVersion.Version, r.Name, r.Subresource)
}

func TestSelectors(t *testing.T) {
	t.Parallel()
	pods, nodes, ns := resource("", "v1", "pods", ""), resource("", "v1", "nodes", ""), resource("", "v1", "namespaces", "")
	on := &metav1.LabelSelector{MatchLabels: labels{"on": "yes"}}
	bad := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
	yes, no := labels{"on": "yes"}, labels{"on": "no"}
	known := namespaces{"in": yes, "out": no}
	for name, test := range map[string]struct {
		namespaces, objects *metav1.LabelSelector
		asked               *admission.Attributes
		want                bool
		err                 string
	}{
		"nothing selects":                           {asked: &admission.Attributes{Request: admission.Request{Resource: pods, Namespace: "gone"}}, want: true},
		"everything is selected":                    {namespaces: &metav1.LabelSelector{}, objects: &metav1.LabelSelector{}, asked: &admission.Attributes{Request: admission.Request{Resource: pods, Namespace: "gone"}}, want: true},
		"a namespace that is":                       {namespaces: on, asked: &admission.Attributes{Request: admission.Request{Resource: pods, Namespace: "in"}}, want: true},
		"a namespace that is not":                   {namespaces: on, asked: &admission.Attributes{Request: admission.Request{Resource: pods, Namespace: "out"}}},
		"no namespace":                              {namespaces: on, asked: &admission.Attributes{Request: admission.Request{Resource: nodes}}, want: true},
		"a missing namespace":                       {namespaces: on, asked: &admission.Attributes{Request: admission.Request{Resource: pods, Namespace: "gone"}}, err: `namespaces "gone" not found`},
		"a namespace that is not read":              {namespaces: on, asked: &admission.Attributes{Request: admission.Request{Resource: pods, Namespace: "broken"}}, err: "Internal error occurred: no answer"},
		"a namespace as it is to be":                {namespaces: on, asked: &admission.Attributes{Request: admission.Request{Operation: admission.Update, Resource: ns, Namespace: "out"}, Object: labeled(yes), Old: labeled(no)}, want: true},
		"a namespace that goes":                     {namespaces: on, asked: &admission.Attributes{Request: admission.Request{Operation: admission.Delete, Resource: ns, Namespace: "in"}, Old: labeled(no)}, want: true},
		"an object":                                 {objects: on, asked: &admission.Attributes{Request: admission.Request{Resource: nodes}, Object: labeled(yes)}, want: true},
		"an object that is not":                     {objects: on, asked: &admission.Attributes{Request: admission.Request{Resource: nodes}, Object: labeled(no)}},
		"an object that was":                        {objects: on, asked: &admission.Attributes{Request: admission.Request{Resource: nodes}, Object: labeled(no), Old: labeled(yes)}, want: true},
		"an object that goes":                       {objects: on, asked: &admission.Attributes{Request: admission.Request{Resource: nodes}, Old: labeled(yes)}, want: true},
		"options are no object":                     {objects: on, asked: &admission.Attributes{Request: admission.Request{Resource: pods, Namespace: "in"}, Object: &corev1.PodExecOptions{}}},
		"no selector at all":                        {objects: bad, asked: &admission.Attributes{Request: admission.Request{Resource: nodes}, Object: labeled(yes)}, err: `Internal error occurred: "Near" is not a valid label selector operator`},
		"no selector, but nobody's business either": {namespaces: on, objects: bad, asked: &admission.Attributes{Request: admission.Request{Resource: pods, Namespace: "out"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := match.New(&admissionregistrationv1.MatchResources{NamespaceSelector: test.namespaces, ObjectSelector: test.objects})
			got, err := m.Match(t.Context(), &match.Subject{Attributes: test.asked, Namespaces: known})
			if test.err != "" {
				if err == nil || err.Error() != test.err {
					t.Errorf("%v, want %q", err, test.err)
				}
				return
			}
			if err != nil || (got != nil) != test.want {
				t.Errorf("%v, %v; want %t", got, err, test.want)
			}
		})
	}
}

func TestEverything(t *testing.T) {
	t.Parallel()
	subject := &match.Subject{Attributes: &admission.Attributes{Request: admission.Request{Resource: resource("a", "v1", "b", "c")}}}
	if got, err := match.New(nil).Match(t.Context(), subject); got != subject.Resource || err != nil {
		t.Errorf("match without rules: resource %v, error %v; want the resource of the request", got, err)
	}
}

func TestExempt(t *testing.T) {
	t.Parallel()
	policies := resource("admissionregistration.k8s.io", "v1", "validatingadmissionpolicies", "status")
	policies.Version.GVK.Kind = "ValidatingAdmissionPolicy"
	if !match.IsConfiguration(&admission.Request{Resource: policies}) || match.IsConfiguration(&admission.Request{Resource: resource("admissionregistration.k8s.io", "v1", "others", "")}) {
		t.Error("IsConfiguration returned a wrong result")
	}
	if !match.IsReview(&admission.Request{Resource: resource("authentication.k8s.io", "v1", "tokenreviews", "")}) ||
		match.IsReview(&admission.Request{Resource: resource("example.com", "v1", "tokenreviews", "")}) {
		t.Error("IsReview returned a wrong result")
	}
}

type named struct {
	name    string
	matcher *match.Matcher
}

func (n named) Matcher() *match.Matcher { return n.matcher }

func TestIndex(t *testing.T) {
	t.Parallel()
	equivalent := admissionregistrationv1.Equivalent
	x := match.NewIndex([]named{
		{"pods", match.New(&admissionregistrationv1.MatchResources{ResourceRules: rules{rule("", "v1", "pods")}})},
		{"every", match.New(nil)},
		{"next", match.New(&admissionregistrationv1.MatchResources{ResourceRules: rules{rule("example.com", "v2", "widgets")}, MatchPolicy: &equivalent})},
	})
	expect := func(r *admission.Request, want string) {
		t.Helper()
		for range 2 {
			var got string
			for _, c := range x.Candidates(r) {
				got += c.name + " "
			}
			if got != want {
				t.Errorf("%s %s: %q, want %q", r.Operation, r.Resource.FullName(), got, want)
			}
		}
	}
	expect(&admission.Request{Operation: admission.Create, Resource: resource("", "v1", "pods", "")}, "pods every ")
	expect(&admission.Request{Operation: admission.Delete, Resource: resource("", "v1", "pods", "")}, "every ")
	expect(&admission.Request{Operation: admission.Create, Resource: resource("", "v1", "pods", "status")}, "every ")
	expect(&admission.Request{Operation: admission.Create, Resource: resource("example.com", "v1", "widgets", "")}, "every ")
	// A new version of the resource results in another rest.Resource.
	more := func(r *rest.Resource) []*rest.Resource {
		return []*rest.Resource{r, resource("example.com", "v2", "widgets", "")}
	}
	expect(&admission.Request{Operation: admission.Create, Resource: resource("example.com", "v1", "widgets", ""), EquivalentsOf: more}, "every next ")
}

// TestIndexMemory checks that an index does not keep a resource in memory. A resource can refer to the schemas
// of a custom resource.
func TestIndexMemory(t *testing.T) {
	t.Parallel()
	x := match.NewIndex([]named{{"every", match.New(nil)}})
	served := resource("example.com", "v1", "widgets", "")
	if len(x.Candidates(&admission.Request{Operation: admission.Create, Resource: served})) != 1 {
		t.Error("want one candidate")
	}
	held := weak.Make(served)
	runtime.GC()
	if held.Value() != nil {
		t.Error("the index keeps an unused resource in memory")
	}
	runtime.KeepAlive(x)
}

// BenchmarkCandidates measures a request that matches none of the items.
func BenchmarkCandidates(b *testing.B) {
	for _, n := range []int{0, 1, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			all := make([]named, n)
			for i := range all {
				all[i].matcher = match.New(&admissionregistrationv1.MatchResources{ResourceRules: rules{rule("apps", "v1", fmt.Sprint("kind", i))}})
			}
			x := match.NewIndex(all)
			r := &admission.Request{Operation: admission.Create, Resource: resource("", "v1", "pods", "")}
			b.ReportAllocs()
			for b.Loop() {
				if len(x.Candidates(r)) > 0 {
					b.Fatal("an item matches pods")
				}
			}
		})
	}
}
