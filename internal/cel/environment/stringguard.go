package environment

import (
	"regexp"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/decls"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"

	"mainstay.dev/mainstay/internal/cel/library"
	"mainstay.dev/mainstay/internal/cel/pattern"
)

// maxText is the length, in bytes, of a string that costs more to read than one
// evaluation may cost.
const maxText = 10 * PerCallLimit

// stringGuard bounds the memory of strings that functions make, and the time of matching
// regular expressions.
//
// cel-go charges a call for its arguments after it has made its result. Replacing "" by
// one string in another makes one as long as their product, and a joined list can hold the
// same string many times; two strings of an object of 1 MB are enough to exhaust the
// memory. So both functions compute the length first, and end the evaluation as one that
// exceeds the cost limit.
type stringGuard struct{}

var _ cel.SingletonLibrary = stringGuard{}

// LibraryName implements cel.SingletonLibrary.
func (stringGuard) LibraryName() string { return "mainstay.texts" }

// CompileOptions returns nil: cel-go declares the functions.
func (stringGuard) CompileOptions() []cel.EnvOption { return nil }

// ProgramOptions replaces the implementations of the functions.
func (stringGuard) ProgramOptions() []cel.ProgramOption {
	return []cel.ProgramOption{cel.CustomDecoratorV2(func(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		call, ok := i.(interpreter.InterpretableCall)
		if !ok {
			return i, nil
		}
		switch function := call.Function(); function {
		case overloads.Matches:
			return replaceCall(call, matches), nil
		case "replace":
			return replaceCall(call, replace), nil
		case "join":
			return replaceCall(call, join), nil
		}
		return i, nil
	}), cel.OptimizeRegex(literal(overloads.Matches), literal(overloads.MatchesString))}
}

// replaceCall returns a call of f with the same arguments. If f returns nil, the result is
// the error of a missing overload.
func replaceCall(call interpreter.InterpretableCall, f func(args []ref.Val) ref.Val) interpreter.InterpretableCall {
	return interpreter.NewCall(call.ID(), call.Function(), call.OverloadID(), call.Args(), func(args ...ref.Val) ref.Val {
		if result := f(args); result != nil {
			return result
		}
		return decls.MaybeNoSuchOverload(call.Function(), args...)
	})
}

// matches is <string>.matches(<string>) and matches(<string>, <string>), with a regular
// expression that is not a literal.
func matches(args []ref.Val) ref.Val {
	words, ok := stringsOf(args)
	if !ok || len(words) != 2 {
		return nil
	}
	re, err := regexp.Compile(words[1])
	if err != nil {
		return types.WrapErr(err)
	}
	return match(re, words[0])
}

func match(re *regexp.Regexp, text string) ref.Val {
	matches, inTime := new(pattern.Watch).Match(re, text)
	if !inTime {
		library.Exceed()
	}
	return types.Bool(matches)
}

// literal compiles the regular expression of an overload of matches once, if it is a
// literal. It is by overload, so that it precedes cel-go's, which is by function.
func literal(overload string) *interpreter.RegexOptimization {
	return &interpreter.RegexOptimization{
		Function: overloads.Matches, OverloadID: overload, RegexIndex: 1,
		Factory: func(call interpreter.InterpretableCall, expression string) (interpreter.InterpretableCall, error) {
			re, err := regexp.Compile(expression)
			if err != nil {
				return nil, err
			}
			return replaceCall(call, func(args []ref.Val) ref.Val {
				words, ok := stringsOf(args)
				if !ok || len(words) != 2 {
					return nil
				}
				return match(re, words[0])
			}), nil
		},
	}
}

// replace is <string>.replace(<string>, <string>), with an optional limit; a negative limit means
// no limit.
func replace(args []ref.Val) ref.Val {
	limit := types.IntNegOne
	if len(args) == 4 {
		var ok bool
		if limit, ok = args[3].(types.Int); !ok {
			return nil
		}
		args = args[:3]
	}
	words, ok := stringsOf(args)
	if !ok || len(words) != 3 {
		return nil
	}
	s, from, to := words[0], words[1], words[2]
	count := strings.Count(s, from)
	if limit >= 0 {
		count = min(count, int(limit))
	}
	if len(s)+count*(len(to)-len(from)) > maxText {
		library.Exceed()
	}
	return types.String(strings.Replace(s, from, to, count))
}

// join is <list<string>>.join() and <list<string>>.join(<string>).
func join(args []ref.Val) ref.Val {
	list, ok := args[0].(traits.Lister)
	if !ok {
		return nil
	}
	words, ok := stringsOf(args[1:])
	if !ok || len(words) > 1 {
		return nil
	}
	separator := strings.Join(words, "")
	var text strings.Builder
	for i, n := types.IntZero, list.Size().(types.Int); i < n; i++ {
		if i > 0 {
			text.WriteString(separator)
		}
		element := list.Get(i)
		word, ok := element.(types.String)
		if !ok {
			return types.NewErr("join: invalid input: %v", element)
		}
		if text.Len()+len(word) > maxText {
			library.Exceed()
		}
		text.WriteString(string(word))
	}
	return types.String(text.String())
}

// stringsOf returns arguments as strings; false if one is not a string.
func stringsOf(args []ref.Val) ([]string, bool) {
	words := make([]string, len(args))
	for i, arg := range args {
		word, ok := arg.(types.String)
		if !ok {
			return nil, false
		}
		words[i] = string(word)
	}
	return words, true
}
