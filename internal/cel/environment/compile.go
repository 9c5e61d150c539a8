package environment

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
)

// Compile parses and checks an expression, as env.Compile does, and refuses two kinds of
// it that few bytes make very expensive: those whose types nest so deeply that checking
// them takes seconds (typeWork), and those that hold one value so many times that looking
// at the result takes hours (sharing).
//
// Members are the fields of the variable "variables", with what Compile has returned as
// their sharing: how many times the value of the expression may hold the same value.
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
		return nil, 0, refused(ast, "the expression holds the same value too many times")
	}
	return ast, shares, issues
}

// refused is what is wrong with an expression as a whole.
func refused(ast *cel.Ast, why string) *cel.Issues {
	errs := common.NewErrors(ast.Source())
	errs.ReportErrorString(common.NewLocation(1, 0), why)
	return cel.NewIssuesWithSourceInfo(errs, ast.NativeRep().SourceInfo())
}
