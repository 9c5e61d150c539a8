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

	"mainstay.dev/mainstay/cel/library"
	"mainstay.dev/mainstay/cel/pattern"
)

// maxText is the length in bytes of a text that costs more to read than one
// evaluation may cost.
const maxText = 10 * PerCallLimit

// stringGuard keeps functions from making texts that no memory holds, and from matching
// texts for minutes.
//
// A call is charged for what it reads, when it has made its result. Replacing ""
// by one text in another makes one as long as their product, and a joined list may
// hold the same text many times; two texts of an object of 1 MB are enough to end
// the process. So both functions look at the length first, and end the evaluation
// as one that costs too much.
type stringGuard struct{}

var _ cel.SingletonLibrary = stringGuard{}

// LibraryName is what the environment knows the library by.
func (stringGuard) LibraryName() string { return "mainstay.texts" }

// CompileOptions are none: the functions are those of cel-go's strings.
func (stringGuard) CompileOptions() []cel.EnvOption { return nil }

// ProgramOptions exchange what is behind calls of the functions.
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

// replaceCall is a call of another function with the same arguments. Where that has
// no result, there is no such overload.
func replaceCall(call interpreter.InterpretableCall, f func(args []ref.Val) ref.Val) interpreter.InterpretableCall {
	return interpreter.NewCall(call.ID(), call.Function(), call.OverloadID(), call.Args(), func(args ...ref.Val) ref.Val {
		if result := f(args); result != nil {
			return result
		}
		return decls.MaybeNoSuchOverload(call.Function(), args...)
	})
}

// matches is <string>.matches(<string>) and matches(<string>, <string>), with an
// expression that is known when it is called.
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

// literal compiles the expression of an overload of matches once, where it is a
// literal. Named by overload it comes before cel-go's, which is for the function.
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

// replace is <string>.replace(<string>, <string>) and the same with a limit of how
// often, of which a negative one is none.
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

// stringsOf returns the texts of arguments if all are strings.
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
