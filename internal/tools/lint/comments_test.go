package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// TestPackageComments checks that every package has a package comment.
func TestPackageComments(t *testing.T) {
	t.Parallel()
	for _, p := range ours(t) {
		start := "Package " + p.Name + " "
		if p.Name == "main" {
			start = "Command "
		}
		if source := parse(t, p); !strings.HasPrefix(source.comment(), start) {
			t.Errorf("%s: the package comment does not start with %q", p.path(), start)
		}
	}
}

// TestDocComments checks that doc comments start with the name of the declaration that they describe. This
// finds comments that were not updated when a name changed.
func TestDocComments(t *testing.T) {
	t.Parallel()
	for _, p := range ours(t) {
		names, err := filepath.Glob(filepath.Join(p.Dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		fset := token.NewFileSet()
		for _, name := range names {
			file, err := parser.ParseFile(fset, name, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			if ast.IsGenerated(file) {
				continue
			}
			for _, doc := range misnamed(file) {
				t.Errorf("%s: the comment describes another name: %s", fset.Position(doc.Pos()), firstLine(doc))
			}
		}
	}
}

// misnamed returns the doc comments of a file that do not start with the name of their declaration.
func misnamed(file *ast.File) []*ast.CommentGroup {
	var wrong []*ast.CommentGroup
	check := func(doc *ast.CommentGroup, names ...string) {
		if doc != nil && !slices.Contains(names, subject(withoutArticle(doc.Text()))) {
			wrong = append(wrong, doc)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			check(n.Doc, n.Name.Name)
		case *ast.GenDecl:
			for _, spec := range n.Specs {
				if spec, ok := spec.(*ast.TypeSpec); ok {
					check(spec.Doc, spec.Name.Name)
					if !n.Lparen.IsValid() {
						check(n.Doc, spec.Name.Name)
					}
				}
			}
			wrong = append(wrong, misnamedValues(n)...)
		case *ast.StructType:
			wrong = append(wrong, misnamedFields(n.Fields)...)
		case *ast.InterfaceType:
			wrong = append(wrong, misnamedFields(n.Methods)...)
		}
		return true
	})
	return wrong
}

// misnamedValues checks the comments of constants and variables. A comment may describe a group of values. It is wrong if
// it starts with an unexported name that the declaration does not contain.
func misnamedValues(decl *ast.GenDecl) []*ast.CommentGroup {
	var docs []*ast.CommentGroup
	var names []string
	for _, spec := range decl.Specs {
		if spec, ok := spec.(*ast.ValueSpec); ok {
			docs, names = append(docs, spec.Doc), appendNames(names, spec.Names)
		}
	}
	return withOtherSubject(docs, names)
}

// misnamedFields checks the comments of struct fields and interface methods in the same way.
func misnamedFields(list *ast.FieldList) []*ast.CommentGroup {
	var docs []*ast.CommentGroup
	var names []string
	for _, field := range list.List {
		docs, names = append(docs, field.Doc), appendNames(names, field.Names)
	}
	return withOtherSubject(docs, names)
}

func appendNames(names []string, idents []*ast.Ident) []string {
	for _, ident := range idents {
		names = append(names, ident.Name)
	}
	return names
}

// withOtherSubject returns the comments that start with a lower-case identifier that is not one of the names.
func withOtherSubject(docs []*ast.CommentGroup, names []string) []*ast.CommentGroup {
	return slices.DeleteFunc(docs, func(doc *ast.CommentGroup) bool {
		if doc == nil {
			return true
		}
		name := subject(doc.Text())
		return name == "" || !unicode.IsLower(rune(name[0])) || slices.Contains(names, name)
	})
}

func withoutArticle(comment string) string {
	for _, article := range []string{"A ", "An "} {
		if rest, found := strings.CutPrefix(comment, article); found {
			return rest
		}
	}
	return comment
}

// subject returns the first word of a comment, or "" if this word is not an identifier.
func subject(comment string) string {
	name, _, _ := strings.Cut(strings.ReplaceAll(comment, "\n", " "), " ")
	name = strings.TrimSuffix(strings.TrimRight(name, ",.:;"), "'s")
	if !token.IsIdentifier(name) {
		return ""
	}
	return name
}

func firstLine(doc *ast.CommentGroup) string {
	line, _, _ := strings.Cut(doc.Text(), "\n")
	return line
}
