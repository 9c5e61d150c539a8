package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// maxSourceFile is the maximum size of a source file that is read, in bytes.
const maxSourceFile = 16 << 20

// sourcePackage is the parsed source of a package without its tests.
type sourcePackage struct {
	dir   string // relative to the module
	fset  *token.FileSet
	files []*ast.File
	// strings contains the values of package-level constants and variables that are string literals.
	strings map[string]string
}

// parsePackages parses the packages in and below a directory of a module, sorted by directory.
// Tests, test data and generated files are not parsed.
func parsePackages(module fs.FS, root string) ([]*sourcePackage, error) {
	byDir := map[string]*sourcePackage{}
	err := fs.WalkDir(module, root, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			if slices.Contains([]string{"testdata", "testing", "test", "vendor"}, entry.Name()) {
				return fs.SkipDir
			}
			return nil
		case !isSource(entry.Name()):
			return nil
		}
		p := byDir[path.Dir(name)]
		if p == nil {
			p = &sourcePackage{dir: path.Dir(name), fset: token.NewFileSet(), strings: map[string]string{}}
			byDir[p.dir] = p
		}
		return p.parse(module, name)
	})
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", root, err)
	}
	packages := make([]*sourcePackage, 0, len(byDir))
	for _, p := range byDir {
		p.collectStrings()
		packages = append(packages, p)
	}
	slices.SortFunc(packages, func(a, b *sourcePackage) int { return strings.Compare(a.dir, b.dir) })
	return packages, nil
}

// isSource reports whether name is the name of a Go file that is neither a test nor generated.
func isSource(name string) bool {
	return strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") &&
		!strings.HasSuffix(name, ".pb.go") && !strings.Contains(name, "generated")
}

func (p *sourcePackage) parse(module fs.FS, name string) error {
	info, err := fs.Stat(module, name)
	if err != nil {
		return err
	}
	if info.Size() > maxSourceFile {
		return fmt.Errorf("%s has %d bytes, the limit is %d", name, info.Size(), maxSourceFile)
	}
	source, err := fs.ReadFile(module, name)
	if err != nil {
		return err
	}
	file, err := parser.ParseFile(p.fset, name, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	p.files = append(p.files, file)
	return nil
}

// collectStrings sets p.strings.
func (p *sourcePackage) collectStrings() {
	for _, file := range p.files {
		for _, decl := range file.Decls {
			if general, ok := decl.(*ast.GenDecl); ok {
				p.collectSpecs(general.Specs)
			}
		}
	}
}

func (p *sourcePackage) collectSpecs(specs []ast.Spec) {
	for _, spec := range specs {
		value, ok := spec.(*ast.ValueSpec)
		if !ok || len(value.Values) != len(value.Names) {
			continue
		}
		for i, name := range value.Names {
			if text, ok := p.text(value.Values[i]); ok {
				p.strings[name.Name] = text
			}
		}
	}
}

// text evaluates an expression that consists of string literals and of strings of this package. It returns
// false for other expressions.
func (p *sourcePackage) text(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.Ident:
		text, ok := p.strings[e.Name]
		return text, ok
	case *ast.BinaryExpr:
		left, okLeft := p.text(e.X)
		right, okRight := p.text(e.Y)
		return left + right, okLeft && okRight && e.Op == token.ADD
	case *ast.CallExpr: // a conversion, such as string(feature)
		if name, ok := e.Fun.(*ast.Ident); ok && name.Name == "string" && len(e.Args) == 1 {
			return p.text(e.Args[0])
		}
	}
	return "", false
}

// inspect calls visit for each syntax node in the package.
func (p *sourcePackage) inspect(visit func(ast.Node)) {
	for _, file := range p.files {
		ast.Inspect(file, func(n ast.Node) bool {
			if n != nil {
				visit(n)
			}
			return true
		})
	}
}

// typeName returns the name of a type without its package and pointer, or "".
func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.StarExpr:
		return typeName(e.X)
	}
	return ""
}

// keyed returns the values of a struct literal by field name.
func keyed(literal *ast.CompositeLit) map[string]ast.Expr {
	values := map[string]ast.Expr{}
	for _, element := range literal.Elts {
		if pair, ok := element.(*ast.KeyValueExpr); ok {
			if name, ok := pair.Key.(*ast.Ident); ok {
				values[name.Name] = pair.Value
			}
		}
	}
	return values
}
