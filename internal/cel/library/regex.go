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

// Regex returns the library of regular expressions, in Go's syntax (RE2):
//
//	<string>.find(<string>) <string>                    the first match; "" if there is none
//	<string>.findAll(<string>) <list<string>>           all matches
//	<string>.findAll(<string>, <int>) <list<string>>    at most this number of matches; all if negative
//
// A regular expression that is a literal is compiled only once, when the program is created. If it is invalid,
// creating the program fails.
func Regex() cel.EnvOption {
	return cel.Lib(library{
		name: "kubernetes.regex",
		options: []cel.EnvOption{
			cel.Function("find",
				cel.MemberOverload("string_find_string", signature(cel.StringType, cel.StringType), cel.StringType,
					cel.FunctionBinding(withDynamicRegex(find)))),
			cel.Function("findAll",
				cel.MemberOverload("string_find_all_string", signature(cel.StringType, cel.StringType), cel.ListType(cel.StringType),
					cel.FunctionBinding(withDynamicRegex(findAll))),
				cel.MemberOverload("string_find_all_string_int", signature(cel.StringType, cel.StringType, cel.IntType), cel.ListType(cel.StringType),
					cel.FunctionBinding(withDynamicRegex(findAll)))),
		},
		program: []cel.ProgramOption{cel.OptimizeRegex(withLiteralRegex("find", find), withLiteralRegex("findAll", findAll))},
	})
}

// search returns the matches of a regular expression in a string, but at most limit matches unless limit is
// negative.
type search func(re *regexp.Regexp, s string, limit int64) ref.Val

func find(re *regexp.Regexp, s string, _ int64) ref.Val {
	found, inTime := new(pattern.Matcher).Find(re, s)
	if !inTime {
		CancelEvaluation()
	}
	return types.String(found)
}

func findAll(re *regexp.Regexp, s string, limit int64) ref.Val {
	found, inTime := new(pattern.Matcher).FindAll(re, s, int(limit))
	if !inTime {
		CancelEvaluation()
	}
	return types.NewStringList(types.DefaultTypeAdapter, found)
}

// CancelEvaluation aborts the current evaluation with the error for an exceeded cost limit. It panics with the
// value that cel-go uses for its own cost limit. cel-go recovers from this panic only during an evaluation, so
// only functions that an expression calls may call CancelEvaluation.
func CancelEvaluation() {
	panic(interpreter.EvalCancelledError{
		Cause:   interpreter.CostLimitExceeded,
		Message: "operation cancelled: actual cost limit exceeded",
	})
}

// withDynamicRegex returns an overload that compiles the regular expression in each call.
func withDynamicRegex(f search) func(args ...ref.Val) ref.Val {
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

// withLiteralRegex replaces the calls of a function whose regular expression is a literal. The literal is
// compiled only once.
func withLiteralRegex(function string, f search) *interpreter.RegexOptimization {
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

// call calls f with the string and the limit, which are the first and third argument.
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

// searchCostModel returns the cost model for matching a regular expression. The result has at most as many
// elements as the string has characters.
func searchCostModel() costModel {
	return costModel{
		estimate: func(c estimatedCall) *checker.CallEstimate {
			if c.target == nil || len(c.args) < 1 {
				return nil
			}
			s := c.size(*c.target)
			// The estimate corresponds to matchCost.
			each := s.Add(checker.FixedSizeEstimate(1)).MultiplyByCostFactor(traversal)
			regex := c.size(c.args[0]).MultiplyByCostFactor(regexFactor)
			return callEstimateWithSize(each.Multiply(regex), checker.SizeEstimate{Max: s.Max})
		},
		actual: func(c executedCall) *uint64 {
			if len(c.args) < 2 {
				return nil
			}
			return actualCost(matchCost(size(c.args[0]), size(c.args[1])))
		},
	}
}
