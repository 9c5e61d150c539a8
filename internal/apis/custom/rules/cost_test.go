package rules

import (
	"strings"
	"testing"

	"mainstay.dev/mainstay/internal/cel/typed"
)

// Schemas with MAX as a placeholder for the limits of lists, mappings and strings.
const (
	numbers   = `{type: array, MAX, items: {type: number}}`
	textList  = `{type: array, MAX, items: {type: string, MAX}}`
	text      = `{type: string, MAX}`
	numberMap = `{type: object, MAX, additionalProperties: {type: number}}`
)

// TestEstimates compares cost estimates with those of kube-apiserver v1.37, for schemas with and without
// limits. Existing rules are written to fit these estimates.
func TestEstimates(t *testing.T) {
	t.Parallel()
	list := func(items string) string { return `{type: array, MAX, items: ` + items + `}` }
	mapping := func(values string) string { return `{type: object, MAX, additionalProperties: ` + values + `}` }
	object := `{type: object, required: [required], properties: {required: {type: string, MAX}, optional: {type: string, MAX}}}`
	const everything, here = "self.all(x, true)", "has(self.x)"
	for _, test := range []struct {
		schema, rule string
		cost         uint64
		max          string
		limited      uint64
	}{
		{numbers, everything, 4718591, "10", 32},
		{textList, everything, 3145727, "20", 62},
		{list(`{type: boolean}`), everything, 1887437, "5", 17},
		{list(`{type: array, items: {type: number}}`), everything, 3145727, "100", 302},
		{list(`{x-kubernetes-int-or-string: true}`), everything, 4718591, "10", 32},
		{list(`{type: string, format: duration}`), everything, 2359295, "5", 17},
		{list(`{type: string, format: date}`), everything, 725936, "15", 47},
		{list(`{type: string, format: date-time}`), everything, 428963, "25", 77},
		{numberMap, everything, 1348169, "10", 32},
		{mapping(`{type: string}`), everything, 1179647, "3", 11},
		{mapping(`{type: boolean}`), everything, 943718, "100", 302},
		{mapping(`{x-kubernetes-int-or-string: true}`), everything, 1348169, "15", 47},
		{mapping(`{type: object, additionalProperties: {type: number}}`), everything, 1179647, "10", 32},
		{mapping(`{type: array, items: {type: number}}`), everything, 1179647, "25", 77},
		{mapping(`{type: string, format: duration}`), everything, 1048577, "5", 17},
		{mapping(`{type: string, format: date}`), everything, 524288, "10", 32},
		{mapping(`{type: string, format: date-time}`), everything, 349526, "25", 77},
		{numberMap, here, 1, "100", 1},
		{text, "self.contains('test')", 314574, "10", 5},
		{text, "self.startsWith('test')", 2, "15", 2},
		{text, `size(self + "hello") > size("hello")`, 314578, "4", 7},
		{numbers, "self[1] == 0.0", 2, "5000", 2},
		{list(`{type: string}`), "self[1] == self[1]", 314577, "8", 314577},
		{numbers, "self.all(x, self.all(y, true))", 7421701914624, "10", 352},
		{numbers, "self.all(x, x == 0.0)", 6291454, "12582912", 50331650},
		{text, `self.matches("x")`, 314574, "50", 22},
		{text, `"".matches("(((((((((())))))))))[0-9]")`, 7, "10", 7},
		{text, `self.matches("")`, 1, "100", 1},
		{text, `self == "x"`, 2, "0", 1},
		{`{type: string, format: byte, MAX}`, `self == b"x"`, 2, "0", 1},
		{list(`{type: boolean}`), "self[0] == false", 2, "25", 2},
		{list(`{type: string, format: date}`), "self[2].getDayOfMonth() == 13", 4, "42", 4},
		{text, "self.find('[0-9]+') == ''", 629147, "10", 11},
		{textList, "self.join(' ') == 'aa bb'", 329853068905, "10", 43},
		{`{type: integer}`, "'at most ' + string(self) == ''", 5, "", 5},
		{textList, "self.isSorted() == true", 329854432052, "10", 52},
		{text, "self.lowerAscii() == 'lower!'", 314575, "10", 6},
		{mapping(`{type: integer}`), "oldSelf.size() == self.size()", 5, "10", 5},
		{mapping(`{type: string, format: date-time}`), `self["a"] == self["b"]`, 8, "7", 8},
		{mapping(`{type: string, format: duration}`), `self["c"] == self["d"]`, 8, "42", 8},
		{`{type: string, MAX, enum: [A, B, LongValue]}`, "self.contains('A')", 2, "1000", 401},
		{list(object), "self[0] == null", 2, "422", 2},
		{`{type: object, properties: {l: {type: array, items: {type: integer}}}}`, "1 in self.l", 1572865, "", 1572865},
		{`{type: object, properties: {l: {type: array, items: {type: integer}}}}`, "size(self.l.filter(e, e%2 == 0)) == 3", 25165823, "", 25165823},
		{`{type: object, properties: {m: {type: object, additionalProperties: {type: integer}}}}`, "self.m.all(k, self.m[k] > 0)", 3595115, "", 3595115},
		{`{type: object, properties: {a: {type: string}, b: {type: string}}}`, "self.a.lowerAscii() == self.a.lowerAscii()", 943723, "", 943723},
		{`{type: object, properties: {a: {type: string, format: date-time}, b: {type: string}}}`, "string(self.a) == self.b", 314578, "", 314578},
		{`{type: object, properties: {a: {type: string}, b: {type: string}}}`, "self.a.split(self.b) == []", 629160, "", 629160},
	} {
		t.Run(test.rule+" "+test.schema, func(t *testing.T) {
			t.Parallel()
			checkEstimate(t, strings.ReplaceAll(test.schema, "MAX, ", ""), test.rule, test.cost)
			if test.max != "" {
				limits := "maxItems: " + test.max + ", maxProperties: " + test.max + ", maxLength: " + test.max
				checkEstimate(t, strings.ReplaceAll(test.schema, "MAX", limits), test.rule, test.limited)
			}
		})
	}
}

func checkEstimate(t *testing.T, schema, rule string, want uint64) {
	t.Helper()
	schema = strings.ReplaceAll(schema, ", MAX", "")
	compiled := new(typed.Builder).Build(schemaOf(t, schema), false)
	v := new(Checker).compile(expressionKey{scope{typ: compiled}, rule, asRule})
	if v.err != nil {
		t.Fatal(v.err)
	}
	if v.cost != want {
		t.Errorf("estimated cost of %s for %s: %d, want %d", rule, schema, v.cost, want)
	}
}

// TestCosts compares actual evaluation costs with those of kube-apiserver v1.37. All rules are satisfied.
func TestCosts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		schema, object string
		costs          map[string]int64
	}{
		{`{type: object, properties: {a: {type: integer}, b: {type: integer}}}`, `{a: 5, b: 5}`, map[string]int64{
			"self.a == self.b": 5, "type(self.a) == int": 4, "has(self.a)": 1, "has(self.a) && has(self.b)": 2,
			"double(5) < 10.0": 1, "5 < int(10.0)": 1, "double(self.a) < 10.0": 4, "type(self) == type(self)": 5,
		}},
		{`{type: object, properties: {a: {type: number}, b: {type: number}}}`, `{a: 1, b: 1.0}`, map[string]int64{
			"type(self.a) == double": 4, "self.a == 1.0": 3,
		}},
		{`{type: object, properties: {a: {type: string}, b: {type: string}}}`, `{a: "Rook takes 👑", b: "Rook takes 👑"}`, map[string]int64{
			"self.a.startsWith('Rook')": 3, "!self.a.startsWith('knight')": 4, "self.a.matches('^[^0-9]*$')": 8, "!self.a.matches('^[0-9]*$')": 7,
			"type(self.a) == string": 4, "size(self.a) == 12": 4, "self.a.charAt(3) == 'k'": 4, "self.a.indexOf('o') == 1": 4,
			"self.a.replace(' ', 'x') == 'Rookxtakesx👑'": 7, "self.a.split(' ') == ['Rook', 'takes', '👑']": 6,
			"self.a.substring(5) == 'takes 👑'": 5, "self.a.substring(4, 10).trim() == 'takes'": 6,
			"self.a.upperAscii() == 'ROOK TAKES 👑'": 6, "self.a.lowerAscii() == self.a.lowerAscii()": 10,
			"'%d %s'.format([1, 'abc']) == '1 abc'": 2,
		}},
		{`{type: object, properties: {a: {type: string, format: byte}, b: {type: string, format: byte}}}`, `{a: QUI=, b: QUI=}`, map[string]int64{
			"self.a == self.b": 5, "self.a == b'AB'": 3, "type(self.a) == bytes": 4, "size(self.a) == 2": 4,
		}},
		{`{type: object, properties: {d: {type: string, format: duration}, e: {type: string, format: date}, t: {type: string, format: date-time}}}`,
			`{d: 1h2m3s4ms, e: "1997-07-16", t: "2011-08-18T19:03:37.010000000+01:00"}`, map[string]int64{
				"self.d == duration('1h2m') + duration('3s4ms')": 4, "self.d.getHours() == 1": 4, "type(self.d) == google.protobuf.Duration": 4,
				"self.e.getDate() == 16": 4, "type(self.e) == google.protobuf.Timestamp": 4,
				"self.t == timestamp('2011-08-18T00:00:00.000+01:00') + duration('19h3m37s10ms')": 4, "self.t.getDate('01:00') == 18": 4,
			}},
		{`{type: object, properties: {l: {type: array, items: {type: integer}}, m: {type: array, items: {type: integer}}}}`, `{l: [1, 2, 3], m: [1, 2, 3]}`, map[string]int64{
			"1 in self.l": 5, "self.m[0] in self.l": 8, "!(0 in self.l)": 6,
			"self.l + self.m == [1, 2, 3, 1, 2, 3]": 6, "self.l + [4, 5] == [1, 2, 3, 4, 5]": 4,
		}},
		{`{type: object, properties: {s: {type: array, x-kubernetes-list-type: set, items: {type: string}}, t: {type: array, x-kubernetes-list-type: set, items: {type: string}}}}`,
			`{s: [a, b, c], t: [a, c, b]}`, map[string]int64{
				"self.s == ['c', 'b', 'a']": 3, "self.s == self.t": 5, "'a' in self.s": 5, "self.s + self.t == ['a', 'b', 'c']": 6,
				"self.s + ['c', 'd'] == ['a', 'b', 'c', 'd']": 4, "sets.contains(self.s, ['a'])": 6,
				"sets.equivalent(self.s, ['a', 'b', 'c'])": 21, "sets.intersects(self.s, ['a'])": 6,
			}},
		{`{type: object, properties: {o: {type: array, items: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k],
			items: {type: object, properties: {k: {type: string}, v: {type: string}}}}}}}`,
			`{o: [[{k: a, v: "1"}, {k: b, v: "2"}], [{k: b, v: "2"}, {k: a, v: "1"}], [{k: b, v: "3"}, {k: a, v: "1"}], [{k: c, v: "4"}]]}`, map[string]int64{
				"self.o[0] == self.o[1]": 7, "self.o[0] + self.o[2] == self.o[2]": 11, "self.o[2] + self.o[0] == self.o[0]": 11,
				"self.o[0] == [self.o[0][0], self.o[0][1]]": 22, "self.o[0] == [self.o[0][1], self.o[0][0]]": 22,
				"self.o[2] + [self.o[0][0], self.o[0][1]] == self.o[0]": 26, "size(self.o[0] + [self.o[3][0]]) == 3": 20,
			}},
		{`{type: object, properties: {m: {type: object, additionalProperties: {type: integer}}}}`, `{m: {b: 1, d: 2}}`, map[string]int64{
			"!('a' in self.m)": 4, "'b' in self.m": 3, "!has(self.m.a)": 3, "has(self.m.b)": 2, "self.m.all(k, self.m[k] > 0)": 17,
			"self.m.exists_one(k, self.m[k] == 2)": 14, "size(self.m) == 2": 4, "size(self.m.filter(k, self.m[k] > 1)) == 1": 26,
		}},
		{`{type: object, properties: {l: {type: array, items: {type: object, properties: {k: {type: string}, v: {type: string}, w: {type: string}}}}}}`,
			`{l: [{k: a1, v: b1}, {k: a2, v: b2}, {k: a3, v: b3, w: z}]}`, map[string]int64{
				"has(self.l[0].v)": 3, "self.l.all(m, m.k.startsWith('a'))": 21, "self.l.all(m, !has(m.w) || m.w == 'z')": 21,
				"self.l.exists(m, m.k.endsWith('1'))": 13, "self.l.exists_one(m, m.k == 'a3')": 15, "!self.l.exists(m, m.v == 'x')": 25,
				"size(self.l.filter(m, m.k == 'a1')) == 1": 27, "self.l.map(m, m.v).exists(v, v == 'b1')": 55,
				"self.l.exists(m, m.w == 'z')": 24, "!self.l.all(m, m.w != 'z')": 22,
			}},
		{`{type: object, properties: {e: {type: object, x-kubernetes-embedded-resource: true}}}`, `{e: {apiVersion: v1, kind: Pod, metadata: {name: foo, generateName: pickItForMe, namespace: xyz}}}`, map[string]int64{
			"self.e.kind == 'Pod'": 4, "self.e.metadata.name == 'foo'": 5, "self.e.metadata.generateName == 'pickItForMe'": 6,
		}},
		{`{type: object, properties: {s: {x-kubernetes-int-or-string: true}}}`, `{s: "25%"}`, map[string]int64{
			"type(self.s) == int ? self.s == 1 : self.s == '25%'": 7, "self.s == '25%'": 3, "self.s != 1": 3, "self.s == 1 || self.s == '25%'": 6,
			"self.s == '25%' || self.s == 1": 3, "self.s != ['anything']": 3, `type(self.s) == string && self.s.matches(r'(\d+(\.\d+)?%)')`: 10,
		}},
		{`{type: object, properties: {o: {type: object, properties: {f: {type: string}, g: {type: string}}}, m: {type: object, additionalProperties: {type: string}}, l: {type: array, items: {type: string}}}}`,
			`{o: {f: a}, m: {k: v}, l: [a]}`, map[string]int64{
				"self.o.?f == optional.of('a')": 5, "self.o.?g == optional.none()": 4, "self.o.?f.orValue('v') == 'a'": 4,
				"self.m[?'k'] == optional.of('v')": 5, "self.l[?0] == optional.of('a')": 5,
			}},
		{`{type: object, properties: {a: {type: string}, b: {type: string}}}`, `{a: "20", b: 200M}`, map[string]int64{
			"isQuantity(self.a)": 3, "quantity(self.a).isLessThan(quantity(self.b))": 7, `quantity("50k").add(quantity("20")) == quantity("50.02k")`: 5,
			`quantity("50").isInteger()`: 2, "quantity(self.a).isInteger()": 4,
		}},
	} {
		for rule, want := range test.costs {
			t.Run(rule, func(t *testing.T) {
				t.Parallel()
				errs, left := New(withRule(schemaOf(t, test.schema), rule), true).Validate(t.Context(), nil, valueOf(t, test.object), Options{Budget: Budget})
				if len(errs) > 0 {
					t.Fatal(errs)
				}
				if cost := Budget - left; cost != want {
					t.Errorf("cost %d, want %d", cost, want)
				}
			})
		}
	}
}
