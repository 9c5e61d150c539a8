package validation_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/feature"
)

func TestDeclared(t *testing.T) {
	t.Parallel()
	rules := func(_ context.Context, op operation.Operation, path *field.Path, _, old *string) field.ErrorList {
		text := "create"
		if op.Type == operation.Update {
			text = "update of " + *old + " at " + op.Request.SubresourcePath()
		}
		return field.ErrorList{
			field.Invalid(path, text, "always"),
			field.Invalid(path, text, "beta").MarkBeta(),
			field.Invalid(path, text, "alpha").MarkAlpha(),
		}
	}
	value, old := "new", "before"
	noBeta, err := feature.Defaults().Parse("DeclarativeValidationBeta=false")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name        string
		gates       feature.Gates
		old         *string
		subresource string
		want        string
	}{
		{"create", feature.Defaults(), nil, "", `a.b: Invalid value: "create": always; a.b: Invalid value: "create": beta`},
		{"update", noBeta, &old, "", `a.b: Invalid value: "update of before at /": always`},
		{"status", noBeta, &old, "status", `a.b: Invalid value: "update of before at /status": always`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			errs := validation.NewValidator(tt.gates).Validate(t.Context(), func(f validation.Field) {
				validation.ValidateDeclared(f.Child("a").Child("b"), rules, &value, tt.old, tt.subresource)
			})
			var texts []string
			for _, err := range errs {
				texts = append(texts, err.Error())
			}
			if got := strings.Join(texts, "; "); got != tt.want {
				t.Errorf("got %s\nwant %s", got, tt.want)
			}
		})
	}
}

// TestDeclaredOptions checks that all feature gates in markers are defined as options. Rules that depend on an
// undefined option would reject all objects.
func TestDeclaredOptions(t *testing.T) {
	t.Parallel()
	var files []string
	for _, pattern := range []string{"../declarative/*/*.go", "../declarative/*/*/*.go"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	mentioned := regexp.MustCompile(`validate\.IfOption\([^"]*"(\w+)"`)
	options, n := map[string]bool{}, 0
	validation.NewValidator(feature.Gates{}).Validate(t.Context(), func(f validation.Field) {
		var value string
		validation.ValidateDeclared(f, func(_ context.Context, op operation.Operation, _ *field.Path, _, _ *string) field.ErrorList {
			for name := range op.Options {
				options[name] = true
			}
			return nil
		}, &value, nil, "")
	})
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range mentioned.FindAllStringSubmatch(string(text), -1) {
			if n++; !options[m[1]] {
				t.Errorf("%s mentions the gate %s, which declaredOptions does not have", file, m[1])
			}
		}
	}
	if n < 10 {
		t.Errorf("only %d options found in %d files: the pattern is out of date", n, len(files))
	}
}
