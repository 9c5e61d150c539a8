package robustness

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/anishathalye/porcupine"
)

// verb is the verb of a request.
type verb int

const (
	reading verb = iota
	creating
	updating
	removing
)

func (v verb) String() string { return [...]string{"get", "create", "update", "delete"}[v] }

// input is the input of an operation.
type input struct {
	verb  verb
	key   string
	value string // new value of a create or update
	// require is the revision that the object must have; 0 allows any revision.
	require int64
}

// output is the response of an operation.
type output struct {
	outcome  outcome
	value    string // result of a read
	revision int64
}

// state is a possible state of one object.
type state struct {
	present bool
	value   string
	// revision is 0 if the writer of the object received no response, until a later read reveals it.
	revision int64
	// last is the greatest known revision of the object, including deletions.
	last int64
}

// step returns the states that are possible after a request with the given response. It returns nil if the
// response is impossible in the state s.
func (s state) step(in input, out output) []state {
	switch out.outcome {
	case done:
		return s.succeed(in, out)
	case missing:
		return when(!s.present && in.verb != creating, s)
	case exists:
		return when(s.present && in.verb == creating, s)
	case conflict:
		return when(s.present && in.require != 0 && s.revision != in.require, s)
	}
	// The request may or may not have been executed.
	return append(s.succeed(in, output{}), s)
}

func when(possible bool, s state) []state {
	if possible {
		return []state{s}
	}
	return nil
}

// succeed returns the states that are possible after a successful request. out.revision is 0 if no client
// received the revision.
func (s state) succeed(in input, out output) []state {
	if s.present == (in.verb == creating) {
		return nil
	}
	if in.verb == reading {
		read, ok := s.at(out.revision)
		return when(ok && out.value == s.value, read)
	}
	if in.require != 0 {
		required, ok := s.at(in.require)
		if !ok {
			return nil
		}
		s = required
	}
	if out.revision != 0 && out.revision <= s.last {
		return nil
	}
	s.last = max(s.last, out.revision)
	if in.verb == removing {
		return []state{{last: s.last}}
	}
	return []state{{present: true, value: in.value, revision: out.revision, last: s.last}}
}

// at returns the state of an object for which a response has reported a revision. It returns false if the state
// s cannot have this revision.
func (s state) at(revision int64) (state, bool) {
	if s.revision == 0 && revision > s.last {
		s.revision, s.last = revision, revision
	}
	return s, s.revision == revision
}

// model returns the porcupine model of a history. It checks each object separately, because no write affects
// several objects.
func model() porcupine.Model {
	nondeterministic := porcupine.NondeterministicModel{
		Partition: byKey,
		Init:      func() []any { return []any{state{}} },
		Step: func(from, in, out any) []any {
			var next []any
			for _, s := range from.(state).step(in.(input), out.(output)) {
				next = append(next, s)
			}
			return next
		},
		DescribeOperation: func(in, out any) string { return describe(in.(input), out.(output)) },
	}
	return nondeterministic.ToModel()
}

func describe(in input, out output) string {
	return fmt.Sprintf("%s %s %s require=%d -> %s %s %d", in.verb, in.key, in.value, in.require, out.outcome, out.value, out.revision)
}

func byKey(history []porcupine.Operation) [][]porcupine.Operation {
	keys := map[string][]porcupine.Operation{}
	for _, op := range history {
		key := op.Input.(input).key
		keys[key] = append(keys[key], op)
	}
	var parts [][]porcupine.Operation
	for _, part := range keys {
		parts = append(parts, part)
	}
	return parts
}

// revisionsGrow returns an error unless the revision of each write is greater than the revisions in all
// responses that were received before the write began.
func revisionsGrow(history []porcupine.Operation) error {
	byCall := slices.Clone(history)
	slices.SortFunc(byCall, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	byReturn := slices.Clone(history)
	slices.SortFunc(byReturn, func(a, b porcupine.Operation) int { return cmp.Compare(a.Return, b.Return) })
	var known int64
	returned := 0
	for _, op := range byCall {
		for ; byReturn[returned].Return < op.Call; returned++ {
			known = max(known, byReturn[returned].Output.(output).revision)
		}
		in, out := op.Input.(input), op.Output.(output)
		if in.verb != reading && out.outcome == done && out.revision <= known {
			return fmt.Errorf("%s, after revision %d had been seen", describe(in, out), known)
		}
	}
	return nil
}
