package library

import (
	"regexp"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"

	"mainstay.dev/mainstay/internal/cel/pattern"
)

// Regex is what regular expressions (in Go's syntax, RE2) find in strings:
//
//	<string>.find(<string>) <string>                    the first match, "" without one
//	<string>.findAll(<string>) <list<string>>           all matches
//	<string>.findAll(<string>, <int>) <list<string>>    so many at the most; all if negative
//
// An expression that is a literal is compiled once, with the program, and what is
// wrong with it is an error of that.
func Regex() cel.EnvOption {
	return cel.Lib(library{
		name: "kubernetes.regex",
		options: []cel.EnvOption{
			cel.Function("find",
				cel.MemberOverload("string_find_string", signature(cel.StringType, cel.StringType), cel.StringType,
					cel.FunctionBinding(compiling(find)))),
			cel.Function("findAll",
				cel.MemberOverload("string_find_all_string", signature(cel.StringType, cel.StringType), cel.ListType(cel.StringType),
					cel.FunctionBinding(compiling(findAll))),
				cel.MemberOverload("string_find_all_string_int", signature(cel.StringType, cel.StringType, cel.IntType), cel.ListType(cel.StringType),
					cel.FunctionBinding(compiling(findAll)))),
		},
		program: []cel.ProgramOption{cel.OptimizeRegex(precompiled("find", find), precompiled("findAll", findAll))},
	})
}

// search returns the matches of a compiled expression in a string, up to limit unless it is
// negative.
type search func(re *regexp.Regexp, s string, limit int64) ref.Val

func find(re *regexp.Regexp, s string, _ int64) ref.Val {
	found, inTime := new(pattern.Watch).Find(re, s)
	if !inTime {
		Exceed()
	}
	return types.String(found)
}

func findAll(re *regexp.Regexp, s string, limit int64) ref.Val {
	found, inTime := new(pattern.Watch).FindAll(re, s, int(limit))
	if !inTime {
		Exceed()
	}
	return types.NewStringList(types.DefaultTypeAdapter, found)
}

// Exceed ends an evaluation, as cel-go does beyond the limit on costs: it recovers
// from this panic and makes it the error of the evaluation.
func Exceed() {
	panic(interpreter.EvalCancelledError{
		Cause:   interpreter.CostLimitExceeded,
		Message: "operation cancelled: actual cost limit exceeded",
	})
}

// compiling is a search with an expression that is known when it is called.
func compiling(f search) func(args ...ref.Val) ref.Val {
	return func(args ...ref.Val) ref.Val {
		if len(args) < 2 {
			return types.NoSuchOverloadErr()
		}
		expression, ok := argument[string](args[1])
		if !ok {
			return types.MaybeNoSuchOverloadErr(args[1])
		}
		re, err := regexp.Compile(expression)
		if err != nil {
			return types.NewErr("Illegal regex: %v", err)
		}
		return call(f, re, args)
	}
}

// precompiled replaces the calls of a function with a literal expression.
func precompiled(function string, f search) *interpreter.RegexOptimization {
	return &interpreter.RegexOptimization{
		Function:   function,
		RegexIndex: 1,
		Factory: func(c interpreter.InterpretableCall, expression string) (interpreter.InterpretableCall, error) {
			re, err := regexp.Compile(expression)
			if err != nil {
				return nil, err
			}
			return interpreter.NewCall(c.ID(), c.Function(), c.OverloadID(), c.Args(), func(args ...ref.Val) ref.Val {
				return call(f, re, args)
			}), nil
		},
	}
}

// call reads the string and the limit, the first and third argument.
func call(f search, re *regexp.Regexp, args []ref.Val) ref.Val {
	s, ok := argument[string](args[0])
	if !ok {
		return types.MaybeNoSuchOverloadErr(args[0])
	}
	limit := int64(-1)
	if len(args) > 2 {
		if limit, ok = argument[int64](args[2]); !ok {
			return types.MaybeNoSuchOverloadErr(args[2])
		}
	}
	return f(re, s, limit)
}

// searchPrice is that of matching; at the worst each character is a result.
func searchPrice() price {
	return price{
		estimate: func(c plannedCall) *checker.CallEstimate {
			if c.target == nil || len(c.args) < 1 {
				return nil
			}
			s := c.size(*c.target)
			// As matchCost.
			each := s.Add(checker.FixedSizeEstimate(1)).MultiplyByCostFactor(traversal)
			regex := c.size(c.args[0]).MultiplyByCostFactor(regexFactor)
			return costsAndMakes(each.Multiply(regex), checker.SizeEstimate{Max: s.Max})
		},
		actual: func(c madeCall) *uint64 {
			if len(c.args) < 2 {
				return nil
			}
			return exactly(matchCost(size(c.args[0]), size(c.args[1])))
		},
	}
}
