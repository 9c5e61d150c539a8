package environment

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
)

// Compile parses and checks an expression like env.Compile. In addition, it rejects two kinds of expressions
// that are short but very expensive. One kind has deeply nested types, which take seconds to check (see
// typeWork). The other kind has a value that contains another value so many times that processing the result
// takes hours (see sharing).
//
// shares is an upper bound of the number of times that a single value occurs in the result of the expression.
// members maps each field of the variable "variables" to the shares that an earlier call returned for it; it
// may be nil.
// Compile is safe for concurrent use.
func Compile(env *cel.Env, text string, members map[string]int) (ast *cel.Ast, shares int, issues *cel.Issues) {
	ast, issues = env.Parse(text)
	if issues.Err() != nil {
		return nil, 0, issues
	}
	work := typeWork{variables: map[string]int{}}
	work.sizeOf(ast.NativeRep().Expr())
	if work.total > maxTypeWork {
		return nil, 0, compileError(ast, "the types of the expression are nested too deeply")
	}
	if ast, issues = env.Check(ast); issues.Err() != nil {
		return nil, 0, issues
	}
	s := sharing{ast: ast.NativeRep(), variables: map[string]int{}, members: members}
	shares = s.estimate(s.ast.Expr())
	if s.highest > maxSharing {
		return nil, 0, compileError(ast, "the expression contains the same value too many times")
	}
	return ast, shares, issues
}

// compileError returns an error for the expression as a whole.
func compileError(ast *cel.Ast, why string) *cel.Issues {
	errs := common.NewErrors(ast.Source())
	errs.ReportErrorString(common.NewLocation(1, 0), why)
	return cel.NewIssuesWithSourceInfo(errs, ast.NativeRep().SourceInfo())
}
