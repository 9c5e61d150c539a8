package robustness

import (
	"testing"

	"github.com/anishathalye/porcupine"
)

// TestModel checks that the model accepts linearizable histories and rejects others.
func TestModel(t *testing.T) {
	t.Parallel()
	op := func(call, ret int64, in input, out output) porcupine.Operation {
		in.key = "k"
		return porcupine.Operation{Input: in, Output: out, Call: call, Return: ret}
	}
	create := func(value string) input { return input{verb: creating, value: value} }
	update := func(value string, require int64) input { return input{verb: updating, value: value, require: require} }
	get := input{verb: reading}
	remove := input{verb: removing}
	tests := []struct {
		name    string
		history []porcupine.Operation
		want    bool
	}{
		{"one after another", []porcupine.Operation{
			op(1, 2, create("a"), output{done, "", 5}),
			op(3, 4, get, output{done, "a", 5}),
			op(5, 6, update("b", 5), output{done, "", 7}),
			op(7, 8, remove, output{done, "", 9}),
			op(9, 10, get, output{missing, "", 0}),
		}, true},
		{"lost write", []porcupine.Operation{
			op(1, 2, create("a"), output{done, "", 5}),
			op(3, 4, get, output{missing, "", 0}),
		}, false},
		{"stale read", []porcupine.Operation{
			op(1, 2, create("a"), output{done, "", 5}),
			op(3, 4, update("b", 0), output{done, "", 6}),
			op(5, 6, get, output{done, "a", 5}),
		}, false},
		{"either, while both are under way", []porcupine.Operation{
			op(1, 2, create("a"), output{done, "", 5}),
			op(3, 6, update("b", 0), output{done, "", 6}),
			op(4, 5, get, output{done, "a", 5}),
		}, true},
		{"two creations of one object", []porcupine.Operation{
			op(1, 4, create("a"), output{done, "", 5}),
			op(2, 3, create("b"), output{done, "", 6}),
		}, false},
		{"both conditional updates", []porcupine.Operation{
			op(1, 2, create("a"), output{done, "", 5}),
			op(3, 6, update("b", 5), output{done, "", 6}),
			op(4, 5, update("c", 5), output{done, "", 7}),
		}, false},
		{"one of two conditional updates", []porcupine.Operation{
			op(1, 2, create("a"), output{done, "", 5}),
			op(3, 6, update("b", 5), output{done, "", 6}),
			op(4, 5, update("c", 5), output{conflict, "", 0}),
		}, true},
		{"groundless conflict", []porcupine.Operation{
			op(1, 2, create("a"), output{done, "", 5}),
			op(3, 4, update("b", 5), output{conflict, "", 0}),
		}, false},
		{"unknown, done", []porcupine.Operation{
			op(1, 2, create("a"), output{outcome: unknown}),
			op(3, 4, get, output{done, "a", 5}),
			op(5, 6, update("b", 5), output{done, "", 6}),
		}, true},
		{"unknown, not done", []porcupine.Operation{
			op(1, 2, create("a"), output{outcome: unknown}),
			op(3, 4, get, output{missing, "", 0}),
		}, true},
		{"unknown, done after it ended", []porcupine.Operation{
			op(1, 2, create("a"), output{outcome: unknown}),
			op(3, 4, get, output{missing, "", 0}),
			op(5, 6, get, output{done, "a", 5}),
		}, false},
		{"revision that falls", []porcupine.Operation{
			op(1, 2, create("a"), output{done, "", 5}),
			op(3, 4, remove, output{done, "", 6}),
			op(5, 6, create("b"), output{done, "", 4}),
		}, false},
	}
	for _, tt := range tests {
		if got := porcupine.CheckOperations(model(), tt.history); got != tt.want {
			t.Errorf("%s: linearizable is %t, want %t", tt.name, got, tt.want)
		}
	}
}

func TestRevisionsGrow(t *testing.T) {
	t.Parallel()
	op := func(call, ret int64, key string, revision int64) porcupine.Operation {
		return porcupine.Operation{Input: input{verb: creating, key: key}, Output: output{revision: revision}, Call: call, Return: ret}
	}
	if err := revisionsGrow([]porcupine.Operation{op(1, 3, "a", 6), op(2, 4, "b", 5), op(5, 6, "c", 7)}); err != nil {
		t.Error(err)
	}
	if revisionsGrow([]porcupine.Operation{op(1, 2, "a", 6), op(3, 4, "b", 5)}) == nil {
		t.Error("a revision that falls from one object to another is not noticed")
	}
}
