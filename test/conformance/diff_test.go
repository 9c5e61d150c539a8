package conformance

import (
	"strings"
	"testing"
)

func TestComparison(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name      string
		want, got string
		finds     []string // prefixes of the differences
	}{
		{"equal", `{"a":[1,"x",null,true]}`, `{"a":[1,"x",null,true]}`, nil},
		{"another number", `{"a":1}`, `{"a":2}`, []string{".a: want 1, got 2"}},
		{"missing", `{"a":1,"b":2}`, `{"a":1}`, []string{".b: want 2, missing"}},
		{"not wanted", `{}`, `{"b":2}`, []string{".b: not wanted, got 2"}},
		{"null is not missing", `{"a":null}`, `{}`, []string{".a: want null, missing"}},
		{"a shorter list", `[1,2]`, `[1]`, []string{": want 2 elements, got 1"}},
		{"another type", `{"a":{}}`, `{"a":[]}`, []string{".a: want an object"}},
		{"other revisions", `[{"name":"a","resourceVersion":"5"},{"name":"b","resourceVersion":"6"}]`,
			`[{"name":"a","resourceVersion":"50"},{"name":"b","resourceVersion":"51"}]`, nil},
		{"a revision too many", `[{"name":"a","resourceVersion":"5"},{"name":"a","resourceVersion":"5"}]`,
			`[{"name":"a","resourceVersion":"50"},{"name":"a","resourceVersion":"51"}]`, []string{"[1].resourceVersion: recorded 5 stands for 50"}},
		{"a revision that is no number", `{"name":"a","resourceVersion":"5"}`, `{"name":"a","resourceVersion":"x"}`, []string{".resourceVersion: want a resourceVersion"}},
		{"the revision of a list may be later", `[{"name":"a","resourceVersion":"5"},{"resourceVersion":"5"}]`,
			`[{"name":"a","resourceVersion":"50"},{"resourceVersion":"60"}]`, nil},
		{"generated names", `[{"generateName":"m-","name":"m-abcde"},"m-abcde is here"]`, `[{"generateName":"m-","name":"m-vwxyz"},"m-vwxyz is here"]`, nil},
		{"managers in another second", `{"managedFields":[{"manager":"a","operation":"Apply"},{"manager":"b","operation":"Apply"}]}`,
			`{"managedFields":[{"manager":"b","operation":"Apply"},{"manager":"a","operation":"Apply"}]}`, nil},
		{"ages in tables", `{"kind":"Table","columnDefinitions":[{"name":"Name"},{"name":"Age"}],"rows":[{"cells":["5d","1s"]}]}`,
			`{"kind":"Table","columnDefinitions":[{"name":"Name"},{"name":"Age"}],"rows":[{"cells":["5d","9m3s"]}]}`, nil},
		{"other cells in tables", `{"kind":"Table","columnDefinitions":[{"name":"Name"},{"name":"Age"}],"rows":[{"cells":["5d","1s"]}]}`,
			`{"kind":"Table","columnDefinitions":[{"name":"Name"},{"name":"Age"}],"rows":[{"cells":["6d","1s"]}]}`, []string{`.rows[0].cells[0]: want "5d", got "6d"`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := &Comparison{Memory: NewMemory()}
			compareRaw(c, "", []byte(tt.want), []byte(tt.got))
			if len(c.Differences) != len(tt.finds) {
				t.Fatalf("got differences %q, want %q", c.Differences, tt.finds)
			}
			for i, begin := range tt.finds {
				if !strings.HasPrefix(c.Differences[i], begin) {
					t.Errorf("got difference %q, want %q", c.Differences[i], begin)
				}
			}
		})
	}
}
