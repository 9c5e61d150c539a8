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

// maxStringSize is the size, in bytes, of a string that costs as much to read as the cost limit of an
// evaluation allows.
const maxStringSize = 10 * PerCallLimit

// stringGuard limits the memory for strings that functions create, and the time for matching regular
// expressions.
//
// cel-go charges for a call only after it has created the result. If "" is replaced with a string, the length
// of the result is the product of the lengths of two strings, and a joined list can contain the same string
// many times. Two strings from an object of 1 MB can therefore exhaust the memory. The functions in this file
// compute the length first, and cancel the evaluation if the length exceeds the cost limit.
type stringGuard struct{}

var _ cel.SingletonLibrary = stringGuard{}

// LibraryName implements cel.SingletonLibrary.
func (stringGuard) LibraryName() string { return "mainstay.texts" }

// CompileOptions implements cel.Library. It returns nil, because cel-go declares the functions.
func (stringGuard) CompileOptions() []cel.EnvOption { return nil }

// ProgramOptions implements cel.Library. It replaces the implementations of the functions.
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
	}), cel.OptimizeRegex(literalRegex(overloads.Matches), literalRegex(overloads.MatchesString))}
}

// replaceCall returns a call of f with the same arguments. If f returns nil, the result of the call is the
// error for a missing overload.
func replaceCall(call interpreter.InterpretableCall, f func(args []ref.Val) ref.Val) interpreter.InterpretableCall {
	return interpreter.NewCall(call.ID(), call.Function(), call.OverloadID(), call.Args(), func(args ...ref.Val) ref.Val {
		if result := f(args); result != nil {
			return result
		}
		return decls.MaybeNoSuchOverload(call.Function(), args...)
	})
}

// matches implements <string>.matches(<string>) and matches(<string>, <string>) if the regular expression is
// not a literal.
func matches(args []ref.Val) ref.Val {
	parts, ok := stringsOf(args)
	if !ok || len(parts) != 2 {
		return nil
	}
	re, err := regexp.Compile(parts[1])
	if err != nil {
		return types.WrapErr(err)
	}
	return match(re, parts[0])
}

func match(re *regexp.Regexp, text string) ref.Val {
	matches, inTime := new(pattern.Matcher).Match(re, text)
	if !inTime {
		library.CancelEvaluation()
	}
	return types.Bool(matches)
}

// literalRegex compiles the regular expression for an overload of matches only once, if it is a literal. It is
// registered by overload, so that it takes precedence over cel-go's optimization, which is registered by
// function.
func literalRegex(overload string) *interpreter.RegexOptimization {
	return &interpreter.RegexOptimization{
		Function: overloads.Matches, OverloadID: overload, RegexIndex: 1,
		Factory: func(call interpreter.InterpretableCall, expression string) (interpreter.InterpretableCall, error) {
			re, err := regexp.Compile(expression)
			if err != nil {
				return nil, err
			}
			return replaceCall(call, func(args []ref.Val) ref.Val {
				parts, ok := stringsOf(args)
				if !ok || len(parts) != 2 {
					return nil
				}
				return match(re, parts[0])
			}), nil
		},
	}
}

// replace implements <string>.replace(<string>, <string>), with an optional limit. A negative limit means no
// limit.
func replace(args []ref.Val) ref.Val {
	limit := types.IntNegOne
	if len(args) == 4 {
		var ok bool
		if limit, ok = args[3].(types.Int); !ok {
			return nil
		}
		args = args[:3]
	}
	parts, ok := stringsOf(args)
	if !ok || len(parts) != 3 {
		return nil
	}
	s, from, to := parts[0], parts[1], parts[2]
	count := strings.Count(s, from)
	if limit >= 0 {
		count = min(count, int(limit))
	}
	if len(s)+count*(len(to)-len(from)) > maxStringSize {
		library.CancelEvaluation()
	}
	return types.String(strings.Replace(s, from, to, count))
}

// join implements <list<string>>.join() and <list<string>>.join(<string>).
func join(args []ref.Val) ref.Val {
	list, ok := args[0].(traits.Lister)
	if !ok {
		return nil
	}
	parts, ok := stringsOf(args[1:])
	if !ok || len(parts) > 1 {
		return nil
	}
	separator := strings.Join(parts, "")
	var text strings.Builder
	for i, n := types.IntZero, list.Size().(types.Int); i < n; i++ {
		if i > 0 {
			text.WriteString(separator)
		}
		element := list.Get(i)
		part, ok := element.(types.String)
		if !ok {
			return types.NewErr("join: invalid input: %v", element)
		}
		if text.Len()+len(part) > maxStringSize {
			library.CancelEvaluation()
		}
		text.WriteString(string(part))
	}
	return types.String(text.String())
}

// stringsOf returns the arguments as Go strings, or false if any argument is not a string.
func stringsOf(args []ref.Val) ([]string, bool) {
	parts := make([]string, len(args))
	for i, arg := range args {
		part, ok := arg.(types.String)
		if !ok {
			return nil, false
		}
		parts[i] = string(part)
	}
	return parts, true
}
