package environment

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
)

// Compile parses and checks an expression like env.Compile, and rejects two kinds of expressions
// that are short but very expensive: those with deeply nested types, which take seconds to check
// (typeWork), and those whose value contains another value so many times that processing the result
// takes hours (sharing). members are the fields of the variable "variables", with the sharing that
// Compile returned for them: the maximum number of times that the value of the expression contains
// the same value.
func Compile(env *cel.Env, text string, members map[string]int) (ast *cel.Ast, shares int, issues *cel.Issues) {
	ast, issues = env.Parse(text)
	if issues.Err() != nil {
		return nil, 0, issues
	}
	work := typeWork{variables: map[string]int{}}
	work.sizeOf(ast.NativeRep().Expr())
	if work.done > maxTypeWork {
		return nil, 0, refused(ast, "the types of the expression are nested too deeply")
	}
	if ast, issues = env.Check(ast); issues.Err() != nil {
		return nil, 0, issues
	}
	s := sharing{ast: ast.NativeRep(), variables: map[string]int{}, members: members}
	shares = s.of(s.ast.Expr())
	if s.most > maxSharing {
		return nil, 0, refused(ast, "the expression contains the same value too many times")
	}
	return ast, shares, issues
}

// refused returns the error of an expression as a whole.
func refused(ast *cel.Ast, why string) *cel.Issues {
	errs := common.NewErrors(ast.Source())
	errs.ReportErrorString(common.NewLocation(1, 0), why)
	return cel.NewIssuesWithSourceInfo(errs, ast.NativeRep().SourceInfo())
}
