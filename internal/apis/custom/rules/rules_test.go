package rules

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mainstay.dev/mainstay/internal/apis/custom/schema"
	"mainstay.dev/mainstay/internal/request"
)

// judged is an object in YAML, with the expected result of its validation.
type judged struct {
	name, schema, object string
	// old is the old object, or empty on creation.
	old string
	// want contains the expected errors, and warned the expected warnings.
	want, warned []string
}

func (j judged) check(t *testing.T) {
	t.Parallel()
	ctx := request.NewContext(t.Context(), nil, time.Time{})
	o := Options{Budget: Budget}
	if j.old != "" {
		o.Old, o.Ratchet = valueOf(t, j.old), true
		var err error
		if o.Schema, err = schema.Compile(schemaOf(t, j.schema)); err != nil {
			t.Fatal(err)
		}
	}
	errs, _ := New(schemaOf(t, j.schema), true).Validate(ctx, nil, valueOf(t, j.object), o)
	var got []string
	for _, err := range errs {
		got = append(got, err.Error())
	}
	if diff := cmp.Diff(j.want, got); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(j.warned, request.WarningsFrom(ctx)); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func TestRules(t *testing.T) {
	t.Parallel()
	for _, test := range []judged{
		{name: "the error of a scalar contains its value", schema: `
type: object
properties: {a: {type: string, x-kubernetes-validations: [{rule: "self == 'x'", message: " must be x "}]}}`,
			object: `{a: w}`, want: []string{`a: Invalid value: "w": must be x`}},
		{name: "the error of an object does not contain its value", schema: `
type: object
properties: {a: {type: object, properties: {b: {type: integer}}, x-kubernetes-validations: [{rule: "self.b > 1"}]}}`,
			object: `{a: {b: 1}}`, want: []string{`a: Invalid value: failed rule: self.b > 1`}},
		{name: "the root has no path", schema: `
type: object
x-kubernetes-validations: [{rule: "self.metadata.name != 'bad'"}]`,
			object: `{metadata: {name: bad}}`, want: []string{`<nil>: Invalid value: failed rule: self.metadata.name != 'bad'`}},
		{name: "reasons and paths of fields", schema: `
type: object
properties:
  a:
    type: object
    properties: {b: {type: string}, m: {type: object, additionalProperties: {type: string}}}
    x-kubernetes-validations:
    - {rule: "false", reason: FieldValueForbidden, message: nope, fieldPath: .b}
    - {rule: "false", reason: FieldValueRequired, message: give it, fieldPath: ".m['x.w']"}
    - {rule: "false", reason: FieldValueDuplicate, message: twice, fieldPath: ".m.z"}
    - {rule: "false", reason: FieldValueInvalid}`,
			object: `{a: {}}`, want: []string{`a.b: Forbidden: nope`, `a.m[x.w]: Required value: give it`, `a.m[z]: Duplicate value`, `a: Invalid value: failed rule: false`}},
		{name: "elements, properties and additional properties", schema: `
type: object
properties:
  l: {type: array, items: {type: integer, x-kubernetes-validations: [{rule: "self < 3"}]}}
  m: {type: object, additionalProperties: {type: integer, x-kubernetes-validations: [{rule: "self < 3"}]}}`,
			object: `{l: [1, 3, 2], m: {b: 5, a: 4, c: 0}}`,
			want:   []string{`l[1]: Invalid value: 3: failed rule: self < 3`, `m[a]: Invalid value: 4: failed rule: self < 3`, `m[b]: Invalid value: 5: failed rule: self < 3`}},
		{name: "absent and null values are not validated", schema: `
type: object
properties:
  a: {type: string, nullable: true, x-kubernetes-validations: [{rule: "false"}]}
  b: {type: string, x-kubernetes-validations: [{rule: "false"}]}
  l: {type: array, items: {type: string, nullable: true, x-kubernetes-validations: [{rule: "false"}]}}`,
			object: `{a: null, l: [null]}`},
		{name: "null properties are absent; null in lists and additional properties is a value", schema: `
type: object
properties:
  a: {type: string, nullable: true}
  l: {type: array, items: {type: string, nullable: true}}
  m: {type: object, additionalProperties: {type: string, nullable: true}}
x-kubernetes-validations: [{rule: "!has(self.a) && type(self.l[0]) == null_type && type(self.m['k']) == null_type && 'k' in self.m"}]`,
			object: `{a: null, l: [null], m: {k: null}}`},
		{name: "names that are reserved or not expressible in CEL", schema: `
type: object
properties:
  namespace: {type: string}
  int: {type: integer}
  a.b-c/d: {type: string}
  a__b: {type: string}
  a_b: {type: string}
  "a b": {type: string, x-kubernetes-validations: [{rule: "self == 'seen'", message: unseen}]}
  "9": {type: string}
x-kubernetes-validations:
- {rule: "self.__namespace__ == 'nn' && self.namespace == 'nn' && self.int == 1 && self.a__dot__b__dash__c__slash__d == 'x' && self.a__underscores__b == 'w' && self.a_b == 'z'"}`,
			object: `{namespace: nn, int: 1, a.b-c/d: x, a__b: w, a_b: z, "a b": other, "9": q}`, want: []string{`a b: Invalid value: "other": unseen`}},
		{name: "formats", schema: `
type: object
properties:
  d: {type: string, format: duration}
  t: {type: string, format: date-time}
  e: {type: string, format: date}
  b: {type: string, format: byte}
  num: {type: number}
  i: {x-kubernetes-int-or-string: true}
  j: {x-kubernetes-int-or-string: true}
x-kubernetes-validations:
- {rule: "self.d == duration('1h') && self.t > timestamp('2000-01-01T00:00:00Z') && self.e.getFullYear() == 2020 && self.b == b'AB' && self.num == 1.0"}
- {rule: "self.i == 5 && self.j == '5' && type(self.i) == int && type(self.j) == string"}`,
			object: `{d: 60m, t: "2001-02-03T04:05:06Z", e: "2020-02-03", b: QUI=, num: 1, i: 5, j: "5"}`},
		{name: "an embedded resource", schema: `
type: object
properties:
  e:
    type: object
    x-kubernetes-embedded-resource: true
    x-kubernetes-preserve-unknown-fields: true
    x-kubernetes-validations: [{rule: "self.kind == 'Pod' && self.apiVersion == 'v1' && self.metadata.name.startsWith('p') && !has(self.metadata.generateName)"}]`,
			object: `{e: {apiVersion: v1, kind: Pod, metadata: {name: q, labels: {a: b}}, spec: {}}}`,
			want:   []string{`e: Invalid value: failed rule: self.kind == 'Pod' && self.apiVersion == 'v1' && self.metadata.name.startsWith('p') && !has(self.metadata.generateName)`}},
		{name: "errors of evaluation", schema: `
type: object
properties:
  a: {type: object, properties: {b: {type: integer}, i: {x-kubernetes-int-or-string: true}, l: {type: array, items: {type: integer}}}, x-kubernetes-validations: [
    {rule: "self.b > 1"}, {rule: "self.i + 1 == 2", message: text}, {rule: "self.l[3] == 1"}, {rule: "1 / size(self.l) > 0"}]}`,
			object: `{a: {i: x, l: []}}`, want: []string{
				`a: Invalid value: "object": no such key: b evaluating rule: self.b > 1`,
				`a: Invalid value: "object": 'no such overload': call arguments did not match a supported operator, function or macro signature for rule: text`,
				`a: Invalid value: "object": index out of bounds: 3 evaluating rule: self.l[3] == 1`,
				`a: Invalid value: "object": division by zero evaluating rule: 1 / size(self.l) > 0`}},
		{name: "a rule that does not compile", schema: `
type: object
properties: {a: {type: string, x-kubernetes-validations: [{rule: "self.b"}, {rule: "self == 'x'"}]}}`,
			object: `{a: w}`, want: []string{
				"a: Invalid value: \"string\": rule compile error: compilation failed: ERROR: <input>:1:5: type 'string' does not support field selection\n | self.b\n | ....^",
				`a: Invalid value: "w": failed rule: self == 'x'`}},
		{name: "sets and maps among lists", schema: `
type: object
properties:
  s: {type: array, x-kubernetes-list-type: set, items: {type: string}}
  t: {type: array, x-kubernetes-list-type: set, items: {type: string, format: date-time}}
  m: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [a, b], items: {type: object, properties: {a: {type: string}, b: {type: integer}, v: {type: string}}}}
x-kubernetes-validations:
- {rule: "self.s == ['b', 'a'] && self.s + ['c', 'a'] == ['c', 'b', 'a'] && (self.s + ['c'])[2] == 'c'"}
- {rule: "self.t == self.t && self.t + self.t == self.t"}
- {rule: "self.m == [self.m[1], self.m[0]] && size(self.m + [self.m[0]]) == 2 && self.m != [self.m[0], self.m[0]]"}`,
			object: `{s: [a, b], t: ["2001-02-03T04:05:06Z"], m: [{a: x, b: 1, v: "1"}, {a: x, b: 2, v: "2"}]}`},
	} {
		t.Run(test.name, test.check)
	}
}

func TestMessages(t *testing.T) {
	t.Parallel()
	schema := func(rule string) string {
		return "type: object\nproperties: {a: {type: string, maxLength: 9, x-kubernetes-validations: [" + rule + "]}, n: {type: integer}}"
	}
	for _, test := range []judged{
		{name: "expression with the value", schema: schema(`{rule: "false", messageExpression: "' not ' + self + ' '", message: plain}`), want: []string{`a: Invalid value: "v": not v`}},
		{name: "evaluation error, the message is used", schema: schema(`{rule: "false", messageExpression: "[self][1]", message: plain}`), want: []string{`a: Invalid value: "v": plain`}},
		{name: "evaluation error without a message, the rule is used", schema: schema(`{rule: "  false ", messageExpression: "[self][1]"}`), want: []string{`a: Invalid value: "v": failed rule: false`}},
		{name: "empty", schema: schema(`{rule: "false", messageExpression: "'  '", message: plain}`), want: []string{`a: Invalid value: "v": plain`}},
		{name: "two lines", schema: schema(`{rule: "false", messageExpression: "'a\\nb'", message: plain}`), want: []string{`a: Invalid value: "v": plain`}},
		{name: "too long", schema: schema(`{rule: "false", message: plain, messageExpression: "` + strings.Repeat("x", 0) + `'` + strings.Repeat("x", 5121) + `'"}`), want: []string{`a: Invalid value: "v": plain`}},
		{name: "does not compile", schema: schema(`{rule: "false", messageExpression: "nothing", message: plain}`), want: []string{`a: Invalid value: "v": plain`}},
		{name: "not a string", schema: schema(`{rule: "false", messageExpression: "1", message: plain}`), want: []string{`a: Invalid value: "v": plain`}},
	} {
		test.object = `{a: v}`
		t.Run(test.name, test.check)
	}
}

// TestTransitions checks that transition rules apply only to values with an old value.
func TestTransitions(t *testing.T) {
	t.Parallel()
	const scalar = `
type: object
properties:
  a: {type: string, x-kubernetes-validations: [{rule: "self == oldSelf", message: immutable}]}
  o: {type: integer, x-kubernetes-validations: [{rule: "self > oldSelf.orValue(5)", optionalOldSelf: true}]}
  l: {type: array, items: {type: object, properties: {k: {type: string}, v: {type: integer, x-kubernetes-validations: [{rule: "self >= oldSelf"}]}}}, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k]}
  m: {type: object, additionalProperties: {type: integer, x-kubernetes-validations: [{rule: "self >= oldSelf"}]}}
  s: {type: array, x-kubernetes-list-type: set, items: {type: string}, x-kubernetes-validations: [{rule: "oldSelf.all(x, x in self)", message: only grows}]}
  nu: {type: string, nullable: true, x-kubernetes-validations: [{rule: "self == oldSelf"}]}`
	for _, test := range []judged{
		{name: "created", object: `{a: x, o: 6, l: [{k: a, v: 1}], m: {a: 1}, s: [a], nu: x}`},
		{name: "created, violates a rule with an optional oldSelf", object: `{o: 5}`, want: []string{`o: Invalid value: 5: failed rule: self > oldSelf.orValue(5)`}},
		{name: "changed", old: `{a: x, o: 6, l: [{k: a, v: 2}, {k: b, v: 5}], m: {a: 2}, s: [a, b], nu: x}`, object: `{a: w, o: 6, l: [{k: b, v: 4}, {k: a, v: 3}, {k: c, v: 0}], m: {a: 1, b: 0}, s: [b], nu: null}`, want: []string{
			`a: Invalid value: "w": immutable`, `l[0].v: Invalid value: 4: failed rule: self >= oldSelf`, `m[a]: Invalid value: 1: failed rule: self >= oldSelf`,
			`o: Invalid value: 6: failed rule: self > oldSelf.orValue(5)`, `s: Invalid value: only grows`}},
		{name: "added and removed", old: `{nu: null}`, object: `{a: x, nu: w}`},
		{name: "removed", old: `{a: x, o: 6}`, object: `{}`},
	} {
		test.schema = scalar
		t.Run(test.name, test.check)
	}
}

// TestRatcheting checks that violations in unchanged values are only warnings.
func TestRatcheting(t *testing.T) {
	t.Parallel()
	const schema = `
type: object
properties:
  kind: {type: string, x-kubernetes-validations: [{rule: "self == 'X'", message: k}]}
  spec:
    type: object
    properties:
      a: {type: string, x-kubernetes-validations: [{rule: "self == 'x'", message: a}, {rule: "self == oldSelf && false", message: transition}]}
      b: {type: string}
      l: {type: array, items: {type: string, x-kubernetes-validations: [{rule: "self == 'x'", message: l}]}}
      m: {type: array, items: {type: object, properties: {k: {type: string}, v: {type: string, x-kubernetes-validations: [{rule: "self == 'x'", message: m}]}}}, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k]}
      o: {type: string, x-kubernetes-validations: [{rule: "self == 'x' || oldSelf.hasValue() && false", optionalOldSelf: true, message: optional}]}
    x-kubernetes-validations: [{rule: "self.b != 'bad'", message: s}]`
	for _, test := range []judged{
		{name: "nothing changed", old: `{spec: {a: w, b: bad, l: [w], m: [{k: a, v: w}]}}`, object: `{spec: {a: w, b: bad, l: [w], m: [{k: a, v: w}]}}`,
			want:   []string{`spec.a: Invalid value: "w": transition`},
			warned: []string{`spec: Invalid value: s`, `spec.a: Invalid value: "w": a`, `spec.l[0]: Invalid value: "w": l`, `spec.m[0].v: Invalid value: "w": m`}},
		{name: "something else changed", old: `{spec: {b: "1", l: [w], m: [{k: a, v: w}, {k: b, v: z}]}}`, object: `{spec: {b: bad, l: [w], m: [{k: b, v: z}, {k: a, v: q}]}}`,
			want:   []string{`spec: Invalid value: s`, `spec.m[1].v: Invalid value: "q": m`},
			warned: []string{`spec.l[0]: Invalid value: "w": l`, `spec.m[0].v: Invalid value: "z": m`}},
		{name: "entries in another order", old: `{spec: {b: bad, m: [{k: a, v: x}, {k: b, v: x}]}}`, object: `{spec: {b: bad, m: [{k: b, v: x}, {k: a, v: x}]}}`,
			warned: []string{`spec: Invalid value: s`}},
		{name: "a list without keys is one value", old: `{spec: {b: "1", l: [w]}}`, object: `{spec: {b: "1", l: [w, x]}}`, want: []string{`spec.l[0]: Invalid value: "w": l`}},
		{name: "a new member", old: `{spec: {b: "1"}}`, object: `{spec: {b: "1", l: [w]}}`, want: []string{`spec.l[0]: Invalid value: "w": l`}},
		{name: "the type is always validated", old: `{kind: W, spec: {b: "1"}}`, object: `{kind: W, spec: {b: "1"}}`, want: []string{`kind: Invalid value: "W": k`}},
		{name: "a rule with an optional oldSelf is a transition rule", old: `{spec: {b: "1", o: w}}`, object: `{spec: {b: "1", o: w}}`, want: []string{`spec.o: Invalid value: "w": optional`}},
	} {
		test.schema = schema
		t.Run(test.name, test.check)
	}
}

// TestBudget checks that exceeding the budget ends the validation with an error.
func TestBudget(t *testing.T) {
	t.Parallel()
	const list = `
type: object
properties:
  l: {type: array, items: {type: integer}, x-kubernetes-validations: [%s]}
  z: {type: string, x-kubernetes-validations: [{rule: "false"}]}`
	object := `{z: x, l: [` + strings.TrimSuffix(strings.Repeat("1, ", 400), ", ") + `]}`
	for _, test := range []struct {
		name, rules string
		budget      int64
		want        []string
	}{
		{"one call", `{rule: "self.all(a, self.all(b, self.all(c, a + b + c > 0)))"}`, Budget, []string{
			`l: Invalid value: "array": 'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: self.all(a, self.all(b, self.all(c, a + b + c > 0)))`}},
		{"several calls", `{rule: "self.all(a, a > 0)"}, {rule: "self.all(a, a > 0)"}`, 3000, []string{
			`l: Invalid value: "array": validation failed due to running out of cost budget, no further validation rules will be run`}},
		{"no budget", `{rule: "true"}`, 0, []string{
			`l: Invalid value: "array": validation failed due to running out of cost budget, no further validation rules will be run`}},
		{"a message", `{rule: "false", messageExpression: "self.map(x, string(x)).join()"}`, 1000, []string{
			`l: Invalid value: "array": messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run`}},
		{"a message in one call", `{rule: "false", messageExpression: "self.all(a, self.all(b, self.all(c, a + b + c > 0))) ? 'a' : 'b'"}`, Budget, []string{
			`l: Invalid value: "array": no further validation rules will be run due to call cost exceeds limit for messageExpression: "self.all(a, self.all(b, self.all(c, a + b + c > 0))) ? 'a' : 'b'"`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			errs, left := New(schemaOf(t, strings.Replace(list, "%s", test.rules, 1)), true).Validate(t.Context(), nil, valueOf(t, object), Options{Budget: test.budget})
			var got []string
			for _, err := range errs {
				got = append(got, err.Error())
			}
			if diff := cmp.Diff(test.want, got); diff != "" || left >= 0 {
				t.Errorf("%d left, faults (-want +got):\n%s", left, diff)
			}
		})
	}
}

// TestManyFaults checks that the number of errors is bounded.
func TestManyFaults(t *testing.T) {
	t.Parallel()
	r := New(schemaOf(t, `{type: object, properties: {l: {type: array, items: {type: integer, x-kubernetes-validations: [{rule: "self > 1"}]}}}}`), true)
	errs, _ := r.Validate(t.Context(), nil, valueOf(t, `{l: [`+strings.Repeat("1, ", 20_000)+`1]}`), Options{Budget: Budget})
	if len(errs) != maxFaults {
		t.Errorf("%d faults, want %d", len(errs), maxFaults)
	}
}

// TestCancelled checks that evaluation stops when the context ends.
func TestCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	schema := `{type: object, properties: {l: {type: array, items: {type: integer}, x-kubernetes-validations: [{rule: "self.all(a, self.all(b, a > 0))"}]}}}`
	object := `{l: [` + strings.TrimSuffix(strings.Repeat("1, ", 200), ", ") + `]}`
	errs, _ := New(schemaOf(t, schema), true).Validate(ctx, nil, valueOf(t, object), Options{Budget: Budget})
	if len(errs) != 1 || !strings.Contains(errs[0].Detail, "operation interrupted") {
		t.Errorf("errors %v, want one for the interrupted operation", errs)
	}
}

// TestConcurrent checks concurrent validations, including the first ones, which compile the rules.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	r := New(schemaOf(t, benchSchema), true)
	doc, broken := benchDoc(t), valueOf(t, `{spec: {replicas: 5, minReplicas: 9, maxReplicas: 9, image: x}}`)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				if errs, _ := r.Validate(t.Context(), nil, doc, Options{Old: doc, Ratchet: true, Budget: Budget}); len(errs) != 0 {
					t.Error(errs)
				}
				if errs, _ := r.Validate(t.Context(), nil, broken, Options{Budget: Budget}); len(errs) != 3 {
					t.Error(errs)
				}
			}
		})
	}
	wg.Wait()
}

// TestRefusals checks compilation and evaluation errors of rules.
func TestRefusals(t *testing.T) {
	t.Parallel()
	const schema = `
type: object
properties:
  a: {type: object, properties: {b: {type: integer}, c: {type: integer, nullable: true}, d: {type: object, properties: {e: {type: integer}}}}}
  m: {type: object, additionalProperties: {type: integer}}
  l: {type: array, items: {type: object, properties: {k: {type: string}, v: {type: string}}}}
  e: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}
  i: {x-kubernetes-int-or-string: true, nullable: true}
  s: {type: string}
  num: {type: number}
  u: {x-kubernetes-preserve-unknown-fields: true}
  t: {type: string, format: date-time}`
	object := `{a: {b: 1, c: null}, m: {x: 1}, l: [{k: a}, {k: b, v: z}], e: {apiVersion: v1, kind: Pod, metadata: {name: p, namespace: q}, spec: {}}, i: null, s: x, num: 1, u: 1, t: "2001-02-03T04:05:06Z"}`
	for rule, want := range map[string]string{
		"has(self.a.z)": "undefined field 'z'", "self.a['b'] == 1": "found no matching overload for '_[_]'", "has(self.a.d.e)": "no such key: d", "self.a.c == 1": "no such key: c",
		"self.m['c'] == 1": "no such key: c", "self.m.c == 1": "no such key: c", "self.l[100].k == ''": "index out of bounds: 100", "self.l.all(m, m.v == 'z')": "no such key: v",
		"self.l.exists_one(m, m.v == 'z')": "no such key: v", "self.l.filter(m, m.v == 'z').size() == 1": "no such key: v", "self.l.map(m, m.v).size() == 1": "no such key: v",
		"has(self.metadata.namespace)": "undefined field 'namespace'", "has(self.e.spec)": "undefined field 'spec'", "has(self.e.metadata.labels)": "undefined field 'labels'",
		"type(self.i) == int": "no such key: i", "self.u == 1": "undefined field 'u'", "self.s == 1": "found no matching overload for '_==_' applied to '(string, int)'",
		"self.s < self.num": "found no matching overload for '_<_' applied to '(string, double)'", "self.num == 'x'": "found no matching overload for '_==_' applied to '(double, string)'",
		"self.t > '2000'": "found no matching overload for '_>_' applied to '(timestamp, string)'", "[1, 'x'] == []": "expected type 'int' but found 'string'",
		"self.s.matches('[')": "invalid matches argument", "duration('x') == duration('1s')": "invalid duration argument", "timestamp('x') > self.t": "invalid timestamp argument",
		"self == 'x'": "found no matching overload for '_==_'", "oldSelf.s == 1": "found no matching overload", "object == self": "undeclared reference to 'object'", "self.a{b: 1} == self.a": "undeclared reference to 'self.a'",
		"request.user == ''": "undeclared reference to 'request'", "authorizer.path('/').check('get').allowed()": "undeclared reference to 'authorizer'",
	} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			errs, _ := New(withRule(schemaOf(t, schema), rule), true).Validate(t.Context(), nil, valueOf(t, object), Options{Budget: Budget})
			if len(errs) != 1 || !strings.Contains(errs[0].Detail, want) {
				t.Errorf("%v, want %s", errs, want)
			}
		})
	}
}

// TestCompiledOnce checks that equal rules for the same type are compiled once, when an object first has a
// value to validate, and that message expressions are compiled when a rule first fails.
func TestCompiledOnce(t *testing.T) {
	t.Parallel()
	const place = `{type: object, properties: {x: {type: integer}}, x-kubernetes-validations: [{rule: "self.x > 0", messageExpression: "'x'"}]}`
	r := New(schemaOf(t, `{type: object, properties: {a: `+place+`, b: `+place+`, c: {type: array, items: `+place+`},
		d: {type: object, properties: {x: {type: integer, maximum: 3}, y: {type: string}}, x-kubernetes-validations: [{rule: "self.x > 0"}]}}}`), true)
	for _, step := range []struct {
		object   string
		compiled int
	}{
		{`{}`, 0}, {`{a: {x: 1}}`, 1}, {`{a: {x: 1}, b: {x: 1}, c: [{x: 1}, {x: 2}]}`, 1}, {`{d: {x: 1}}`, 2}, {`{a: {x: 0}}`, 3}, {`{b: {x: 0}}`, 3},
	} {
		r.Validate(t.Context(), nil, valueOf(t, step.object), Options{Budget: Budget})
		if got := len(r.compiled.mu.compiled); got != step.compiled {
			t.Errorf("after %s, %d expressions are compiled, want %d", step.object, got, step.compiled)
		}
	}
	if New(schemaOf(t, `{type: object, properties: {a: {type: string}}}`), true) != nil {
		t.Error("a schema without rules has rules")
	}
}
