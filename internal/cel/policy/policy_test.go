package policy_test

import (
	"strings"
	"testing"

	"github.com/google/cel-go/cel"

	"mainstay.dev/mainstay/internal/cel/policy"
)

func TestScopes(t *testing.T) {
	t.Parallel()
	all := policy.Scope{Params: true, Authorizer: true, Patches: true}
	for _, test := range []struct {
		text  string
		scope policy.Scope
		want  string // a part of the error; empty if there is none
	}{
		{"object.spec.replicas > 1 && oldObject == null", policy.Scope{}, ""},
		{"request.namespace == 'a' && request.userInfo.groups.exists(g, g == 'b') && request.requestKind.kind == 'Pod'", policy.Scope{}, ""},
		{"request.userInfo.extra['a'][0] == 'b' && request.options.dryRun == [] && !request.dryRun", policy.Scope{}, ""},
		{"request.user == 'a'", policy.Scope{}, "undefined field 'user'"},
		{"namespaceObject.metadata.labels['a'] == 'b' && namespaceObject.status.conditions.all(c, c.reason != '')", policy.Scope{}, ""},
		{"namespaceObject.metadata.creationTimestamp < timestamp('2020-01-01T00:00:00Z') && namespaceObject.metadata.generation == 1", policy.Scope{}, ""},
		{"namespaceObject.metadata.managedFields == []", policy.Scope{}, "undefined field 'managedFields'"},
		{"params.limit == 1", policy.Scope{}, "undeclared reference to 'params'"},
		{"params.limit == 1", policy.Scope{Params: true}, ""},
		{"authorizer.path('/a').check('get').allowed()", policy.Scope{}, "undeclared reference to 'authorizer'"},
		{"authorizer.group('').resource('pods').namespace('a').name('b').subresource('c').fieldSelector('d=e').labelSelector('f').check('get').reason() == ''", all, ""},
		{"authorizer.serviceAccount('a', 'b').path('/').check('get').errored() || authorizer.requestResource.check('x').error() == ''", all, ""},
		{"authorizer.check('get').allowed()", all, "found no matching overload for 'check'"},
		{"variables.a == 1", all, "undeclared reference to 'variables'"},
		{"Object{metadata: Object.metadata{labels: {'a': 'b'}}}.metadata.name == ''", all, ""},
		{"Object{} != null", policy.Scope{}, "undeclared reference to 'Object'"},
		{"[JSONPatch{op: 'add', path: '/a/' + jsonpatch.escapeKey('b/c'), value: {}}] != []", all, ""},
		{"[JSONPatch{op: 1}] != []", all, "expected type of field 'op' is 'string' but provided type is 'int'"},
		{"[JSONPatch{do: 'add'}] != []", all, "undefined field 'do'"},
		{"quantity('1Gi').isLessThan(quantity('2Gi')) && isIP('::1')", policy.Scope{}, ""},
		{"object.+", policy.Scope{}, "Syntax error"},
		{"1", policy.Scope{}, "must evaluate to bool but got int"},
		{"object.spec", policy.Scope{}, "must evaluate to bool but got dyn"},
	} {
		var c policy.Compiler
		err := c.Check(test.text, test.scope, cel.BoolType)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", test.text, err, test.want)
		}
	}
}

func TestResults(t *testing.T) {
	t.Parallel()
	scope := policy.Scope{Patches: true}
	for _, test := range []struct {
		text    string
		results []*cel.Type
		want    string
	}{
		{"1", nil, ""},
		{"null", []*cel.Type{cel.StringType, cel.NullType}, ""},
		{"1", []*cel.Type{cel.StringType, cel.NullType}, "must evaluate to one of [string null_type] but got int"},
		{"Object{}", []*cel.Type{policy.ObjectType()}, ""},
		{"Object.spec{}", []*cel.Type{policy.ObjectType()}, "must evaluate to Object but got Object.spec"},
		{"[JSONPatch{}]", []*cel.Type{policy.PatchesType()}, ""},
		{"'x'", []*cel.Type{policy.PatchesType()}, "must evaluate to list(JSONPatch) but got string"},
	} {
		var c policy.Compiler
		got := ""
		if err := c.Check(test.text, scope, test.results...); err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%s: %q, want %q", test.text, got, test.want)
		}
	}
}

// TestVariables checks that expressions can use the variables that were declared before, and that the variables
// have the correct types.
func TestVariables(t *testing.T) {
	t.Parallel()
	c := policy.Compiler{Variables: true}
	for _, v := range []struct{ name, text, want string }{
		{"early", "variables.late", "undefined field 'late'"},
		{"number", "1", ""},
		{"late", "variables.number + 1", ""},
		{"names", "['a']", ""},
		{"user", "request.userInfo", ""},
	} {
		err := c.Declare(v.name, v.text, policy.Scope{})
		if v.want == "" && err != nil || v.want != "" && (err == nil || !strings.Contains(err.Error(), v.want)) {
			t.Errorf("variable %s: %v, want %q", v.name, err, v.want)
		}
	}
	for text, want := range map[string]string{
		"variables.late > 1 && variables.names[0] == 'a'": "",
		"variables.number == 'a'":                         "found no matching overload",
		"variables.early.anything":                        "must evaluate to bool but got dyn", // the variable is invalid
		"variables.user.anything == 1":                    "",                                  // as in kube-apiserver, object types become dynamic
		"variables.none":                                  "undefined field 'none'",
	} {
		err := c.Check(text, policy.Scope{}, cel.BoolType)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		c := policy.Compiler{Variables: true}
		if err := c.Check("object.spec.replicas <= 3 && request.namespace != 'a'", policy.Scope{Authorizer: true}, cel.BoolType); err != nil {
			b.Fatal(err)
		}
	}
}
