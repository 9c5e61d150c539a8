package policy_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/cel/environment"
	"mainstay.dev/mainstay/internal/cel/library"
	"mainstay.dev/mainstay/internal/cel/policy"
	"mainstay.dev/mainstay/internal/request"
)

func lazy(document map[string]any) *policy.LazyDocument {
	return policy.NewLazyDocument(func() (map[string]any, error) { return document, nil })
}

// recordingAuthorizer records requests, and allows those whose text contains "yes".
type recordingAuthorizer struct{ requests []string }

func (a *recordingAuthorizer) Authorize(_ context.Context, attributes *authorizer.Attributes) (authorizer.Decision, string, error) {
	text := fmt.Sprint(attributes.User.Name, " ", attributes.Verb, " ", attributes.Path, attributes.APIGroup, "/", attributes.Resource, "/", attributes.Subresource,
		" ", attributes.Namespace, "/", attributes.Name, " ", attributes.LabelSelectorRequirements)
	a.requests = append(a.requests, text)
	if strings.Contains(text, "broken") {
		return authorizer.DecisionNoOpinion, "", errors.New("no answer")
	}
	if strings.Contains(text, "yes") {
		return authorizer.DecisionAllow, "because", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

func input(t testing.TB, by authorizer.Authorizer) *policy.Input {
	permissions := library.NewPermissions(t.Context(), by, &request.User{Name: "jane"})
	return &policy.Input{
		Object:      lazy(map[string]any{"metadata": map[string]any{"name": "a"}, "spec": map[string]any{"replicas": int64(3), "list": []any{"x", "y"}}}),
		Request:     lazy(map[string]any{"operation": "CREATE"}),
		Params:      lazy(map[string]any{"data": map[string]any{"max": "2"}}),
		Namespace:   lazy(map[string]any{"metadata": map[string]any{"name": "n", "creationTimestamp": time.Unix(0, 0)}}),
		Permissions: permissions,
		Resource:    permissions.Resource("", "yes", "", "n", "a"),
	}
}

var all = policy.Scope{Params: true, Authorizer: true, Patches: true}

func evaluate(t testing.TB, c *policy.Compiler, in *policy.Input, text string) (ref.Val, error) {
	budget := policy.Budget(environment.RuntimeBudget)
	return c.Program(text, all).Evaluate(t.Context(), in, &budget)
}

func TestEvaluate(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"object.spec.replicas == 3 && oldObject == null && request.operation == 'CREATE'": "true",
		"int(params.data.max) < object.spec.replicas":                                     "true",
		"namespaceObject.metadata.creationTimestamp < timestamp('2020-01-01T00:00:00Z')":  "true",
		"object.data.k == 'v'": "expression 'object.data.k == 'v'' resulted in error: no such key: data",
		"authorizer.group('').resource('yes').namespace('n').check('get').allowed()":                    "true",
		"authorizer.group('').resource('no').check('get').allowed()":                                    "false",
		"authorizer.group('').resource('yes').check('get').reason()":                                    "because",
		"authorizer.group('').resource('broken').check('get').error()":                                  "no answer",
		"authorizer.requestResource.check('update').allowed()":                                          "true",
		"authorizer.requestResource.labelSelector('a in (b)').check('update').errored()":                "false",
		"authorizer.serviceAccount('n', 'yes').path('/x').check('get').allowed()":                       "true",
		"authorizer.serviceAccount('n', 'N').path('/x').check('get').allowed()":                         "expression 'authorizer.serviceAccount('n', 'N').path('/x').check('get').allowed()' resulted in error: Invalid service account name",
		"authorizer.path(' ').check('get').allowed()":                                                   "expression 'authorizer.path(' ').check('get').allowed()' resulted in error: path must not be empty",
		"[1, 2, 3].all(i, authorizer.group('').resource('yes').name(string(i)).check('get').allowed())": "expression '[1, 2, 3].all(i, authorizer.group('').resource('yes').name(string(i)).check('get').allowed())' resulted in error: operation cancelled: actual cost limit exceeded",
		"object.": "compilation error: compilation failed: ERROR: <input>:1:8: Syntax error: no viable alternative at input '.'\n | object.\n | .......^",
	} {
		var c policy.Compiler
		c.Programs = new(policy.Programs)
		value, err := evaluate(t, &c, input(t, &recordingAuthorizer{}), text)
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = fmt.Sprint(value.Value())
		}
		if got != want {
			t.Errorf("%s:\n got %s\nwant %s", text, got, want)
		}
	}
}

// TestAuthorizationChecks checks that equal authorization checks are evaluated only once.
func TestAuthorizationChecks(t *testing.T) {
	t.Parallel()
	c := policy.Compiler{Programs: new(policy.Programs)}
	by := &recordingAuthorizer{}
	in := input(t, by)
	for range 3 {
		if _, err := evaluate(t, &c, in, "authorizer.group('apps').resource('yes').subresource('scale').namespace('n').name('a').labelSelector('x=y').check('get').allowed()"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := evaluate(t, &c, in, "authorizer.group('apps').resource('yes').check('get').allowed()"); err != nil {
		t.Fatal(err)
	}
	want := []string{"jane get apps/yes/scale n/a x=y", "jane get apps/yes/ / "}
	if !reflect.DeepEqual(by.requests, want) {
		t.Errorf("%q, want %q", by.requests, want)
	}
}

// TestVariableValues checks that each variable is evaluated only once, when it is first used.
func TestVariableValues(t *testing.T) {
	t.Parallel()
	c := policy.Compiler{Variables: true, Programs: new(policy.Programs)}
	in := input(t, &recordingAuthorizer{})
	for _, v := range []struct{ name, text string }{
		{"broken", "object.none.none"}, {"wrong", "nothing"}, {"n", "object.spec.replicas"}, {"m", "variables.n + 1"}, {"empty", "{}"},
	} {
		in.Variables = append(in.Variables, c.Variable(v.name, v.text, all))
	}
	for text, want := range map[string]string{
		"variables.m == 4 && has(variables.n)": "true",
		"!('k' in variables.empty)":            "true",
		"variables.broken == 1":                `expression 'variables.broken == 1' resulted in error: composited variable "broken" fails to evaluate: no such key: none`,
		"false && variables.broken == 1":       "false",
	} {
		value, err := evaluate(t, &c, in, text)
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = fmt.Sprint(value.Value())
		}
		if got != want {
			t.Errorf("%s:\n got %s\nwant %s", text, got, want)
		}
	}
	if _, err := evaluate(t, &c, in, "variables.wrong == 1"); err == nil || !strings.Contains(err.Error(), `composited variable "wrong" fails to compile`) {
		t.Errorf("a variable that does not compile: %v", err)
	}
}

func TestBudget(t *testing.T) {
	t.Parallel()
	c := policy.Compiler{Variables: true, Programs: new(policy.Programs)}
	in := input(t, &recordingAuthorizer{})
	in.Variables = []policy.Variable{c.Variable("asks", "authorizer.path('/').check('get').allowed()", all)}
	budget := policy.Budget(500_000)
	if _, err := c.Program("variables.asks || true", all).Evaluate(t.Context(), in, &budget); err != nil || budget > 150_000 {
		t.Errorf("%v with %d left", err, budget)
	}
	if _, err := c.Program("authorizer.path('/x').check('get').allowed()", all).Evaluate(t.Context(), in, &budget); !errors.Is(err, policy.ErrBudget) || budget != 0 {
		t.Errorf("%v with %d left", err, budget)
	}
}

// TestHostile checks values that are small in memory but large as documents, long loops, and canceled requests.
func TestHostile(t *testing.T) {
	t.Parallel()
	c := policy.Compiler{Variables: true, Programs: new(policy.Programs)}
	in := input(t, &recordingAuthorizer{})
	in.Variables = append(in.Variables, c.Variable("v0", "['xxxxxxxxxxxxxxxxxxxx']", all))
	for i := range 4 {
		in.Variables = append(in.Variables, c.Variable(fmt.Sprint("v", i+1), fmt.Sprintf("lists.range(1000).map(i, dyn(variables.v%d))", i), all))
	}
	if _, err := evaluate(t, &c, in, "variables.v4 == variables.v4"); err == nil || !strings.Contains(err.Error(), "actual cost limit exceeded") {
		t.Errorf("a comparison of terabytes: %v", err)
	}
	value, err := evaluate(t, &c, in, "Object{spec: Object.spec{list: variables.v4}}")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := policy.Document(value); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("a document of terabytes: %v", err)
	}
	if _, err := policy.ApplyConfigurationOf(value); err == nil || !strings.Contains(err.Error(), "more than") || len(err.Error()) > 1000 {
		t.Errorf("a configuration of terabytes: %v", err)
	}
	value, err = evaluate(t, &c, in, "[JSONPatch{op: 'add', path: '/a', value: Object.a{list: variables.v4}}]")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := policy.PatchOf(value); err == nil || !strings.Contains(err.Error(), "more than") || len(err.Error()) > 1000 {
		t.Errorf("a patch of terabytes: %v", err)
	}
	for i := range 40 {
		in.Variables = append(in.Variables, c.Variable(fmt.Sprint("w", i+1), fmt.Sprintf("[dyn(variables.w%d), dyn(variables.w%d)]", i, i), all))
	}
	if _, err := evaluate(t, &c, in, "variables.w40 == variables.w40"); err == nil || !strings.Contains(err.Error(), "contains the same value too many times") {
		t.Errorf("a value that is doubled 40 times: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	budget := policy.Budget(environment.RuntimeBudget)
	_, err = c.Program("[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, a + b + c > 0)))", all).Evaluate(ctx, in, &budget)
	if err == nil || !strings.Contains(err.Error(), "operation interrupted") {
		t.Errorf("an evaluation of a canceled request: %v", err)
	}
}

func TestMutations(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Object{metadata: Object.metadata{labels: {'a': 'b'}}, spec: Object.spec{?x: optional.none(), n: 1, l: [Object.spec.l{d: 1.5}]}}": "map[metadata:map[labels:map[a:b]] spec:map[l:[map[d:1.5]] n:1]]",
		"Object{spec: Object.specx{}}": `type mismatch: unexpected type name "Object.specx", expected "Object.spec", which matches field name path from root Object type`,
		"Object{spec: Object.spec{at: timestamp('2020-01-01T00:00:00Z'), for: duration('90s'), b: b'x', u: 3u, no: null}}": "map[spec:map[at:2020-01-01T00:00:00Z b:eA== for:90s no:<nil> u:3]]",
		"Object{spec: Object.spec{m: {1: 2}}}":              `fail to convert field "spec": fail to convert field "m": map key 1 is of type int, not string`,
		"Object{spec: Object.spec{list: object.spec.list}}": "map[spec:map[list:[x y]]]",
		"Object{spec: quantity('1Gi')}":                     `fail to convert field "spec": a kubernetes.Quantity is no value of JSON`,
	} {
		c := policy.Compiler{Programs: new(policy.Programs)}
		value, err := evaluate(t, &c, input(t, &recordingAuthorizer{}), text)
		if err != nil {
			t.Errorf("evaluate %s: %v", text, err)
			continue
		}
		got := ""
		if document, err := policy.ApplyConfigurationOf(value); err != nil {
			got = err.Error()
		} else {
			got = fmt.Sprint(document)
		}
		if got != want {
			t.Errorf("%s:\n got %s\nwant %s", text, got, want)
		}
	}
}

func TestPatchOf(t *testing.T) {
	t.Parallel()
	c := policy.Compiler{Programs: new(policy.Programs)}
	value, err := evaluate(t, &c, input(t, &recordingAuthorizer{}), `object.spec.list.map(x, JSONPatch{op: 'add', path: '/a/' + jsonpatch.escapeKey('b/c~' + x), value: Object.a{n: x}}) +
		[JSONPatch{op: 'test', path: '/b', value: null}, JSONPatch{op: 'move', path: '/b', from: JSONPatch{path: '/c'}.path + JSONPatch{}.op}]`)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := policy.PatchOf(value)
	if err != nil || len(patch) != 4 || patch[1].Path != "/a/b~1c~0y" || fmt.Sprint(*patch[0].Value) != "map[n:x]" || *patch[2].Value != nil || patch[3].Value != nil || patch[3].From != "/c" {
		t.Errorf("PatchOf: %+v, error %v", patch, err)
	}
	value, err = evaluate(t, &c, input(t, &recordingAuthorizer{}), "[JSONPatch{op: 'add', path: '/', value: Object.a{b: Object.c{}}}]")
	if err != nil {
		t.Fatal(err)
	}
	if _, err = policy.PatchOf(value); err == nil || !strings.HasPrefix(err.Error(), "type mismatch") {
		t.Errorf("an object of another field: %v", err)
	}
}

func TestConditions(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		texts []string
		want  string
	}{
		{nil, "true"},
		{[]string{"true", "object.metadata.name == 'a'"}, "true"},
		{[]string{"object.none.none == 1", "false"}, "false 1"},
		{[]string{"object.none.none == 1", "true", "object.other == 1"}, "[expression 'object.none.none == 1' resulted in error: no such key: none, expression 'object.other == 1' resulted in error: no such key: other]"},
	} {
		var listed []admissionregistrationv1.MatchCondition
		for i, text := range test.texts {
			listed = append(listed, admissionregistrationv1.MatchCondition{Name: fmt.Sprint(i), Expression: text})
		}
		c := policy.Compiler{Programs: new(policy.Programs)}
		matches, failed, err := c.Conditions(listed, policy.Scope{}).Match(t.Context(), input(t, &recordingAuthorizer{}))
		got := fmt.Sprint(matches)
		if err != nil {
			got = err.Error()
		} else if failed != "" {
			got += " " + failed
		}
		if got != test.want {
			t.Errorf("%q: %s, want %s", test.texts, got, test.want)
		}
	}
}

// TestPrograms checks that equal expressions are compiled only once.
func TestPrograms(t *testing.T) {
	t.Parallel()
	shared := new(policy.Programs)
	of := func(text string, scope policy.Scope) *policy.Program {
		c := policy.Compiler{Programs: shared}
		return c.Program(text, scope, cel.BoolType)
	}
	a := of("object.a == 1", policy.Scope{})
	if of("object.a == 1", policy.Scope{}) != a || of("object.a == 1", all) == a || of("object.a == 2", policy.Scope{}) == a {
		t.Error("equal expressions do not share a program, or different expressions share one")
	}
	runtime.KeepAlive(a)
}

func BenchmarkEvaluate(b *testing.B) {
	c := policy.Compiler{Programs: new(policy.Programs)}
	in := input(b, &recordingAuthorizer{})
	p := c.Program("object.spec.replicas <= 3 && request.operation != 'DELETE'", all, cel.BoolType)
	b.ReportAllocs()
	for b.Loop() {
		budget := policy.Budget(environment.RuntimeBudget)
		if _, err := p.Evaluate(b.Context(), in, &budget); err != nil {
			b.Fatal(err)
		}
	}
}

// FuzzExpressions checks that arbitrary expressions can be compiled, evaluated and converted to documents
// without a panic and within the limits.
func FuzzExpressions(f *testing.F) {
	for _, text := range []string{
		"object.spec.list.all(x, x.matches('^a+$'))", "Object{spec: Object.spec{a: [1]}}", "[JSONPatch{op: 'add', path: '/', value: {'a': 1}}]",
		"authorizer.requestResource.check('get').allowed()", "variables.v + 1", "request.userInfo.groups", "namespaceObject.metadata",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c := policy.Compiler{Variables: true, Programs: new(policy.Programs)}
		in := input(t, &recordingAuthorizer{})
		in.Variables = []policy.Variable{c.Variable("v", text, all)}
		value, err := evaluate(t, &c, in, text)
		if err != nil {
			return
		}
		_, _ = policy.Document(value)
		_, _ = policy.ApplyConfigurationOf(value)
		_, _ = policy.PatchOf(value)
	})
}
