package endpoints

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/codec"
)

// TestJSONPatchThatRemovesTheObject checks that a patch that removes the complete document is
// rejected before it reaches the library, which would panic.
func TestJSONPatchThatRemovesTheObject(t *testing.T) {
	t.Parallel()
	for _, body := range []string{`[{"op":"replace","path":""}]`, `[{"op":"add","path":""}]`, `[{"op":"replace","path":"","value":null}]`} {
		if _, err := parseJSONPatch([]byte(body), ""); err == nil {
			t.Errorf("%s was accepted", body)
		}
	}
}

// TestJSONPatchThatMultiplies checks that a patch that enlarges the object with repeated copies is
// rejected, and that the error does not quote the patch.
func TestJSONPatchThatMultiplies(t *testing.T) {
	t.Parallel()
	var operations []string
	for i := range 30 {
		operations = append(operations, fmt.Sprintf(`{"op":"copy","from":"/data","path":"/data/k%d"}`, i))
	}
	p, err := parseJSONPatch([]byte("["+strings.Join(operations, ",")+"]"), "")
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = p.apply([]byte(`{"data":{"secret":"` + strings.Repeat("x", 1000) + `"}}`))
	if status := StatusOf(err); status.Code != 422 || !strings.Contains(status.Message, "3145728") || strings.Contains(status.Message, "xxx") {
		t.Errorf("response %d %.300s", status.Code, status.Message)
	}
}

// TestJSONPatchOperations checks the limit of the number of operations, and that more operations are rejected
// before they are decoded. It is not parallel, because it counts allocations.
func TestJSONPatchOperations(t *testing.T) {
	const test = `{"op":"test","path":"/a","value":[1,2]}`
	for _, tt := range []struct {
		name, body string
		want       int32 // 0 means success
	}{
		{"maximum", "[" + strings.Repeat(test+",", maxJSONPatchOperations-1) + test + "]", 0},
		{"one more", " [" + strings.Repeat(test+" , ", maxJSONPatchOperations) + test + "]", 413},
		{"empty operations", "[" + strings.Repeat("{},", 1<<20-1) + "{}]", 413},
		{"an object", `{"a":"` + strings.Repeat("x", 1<<20) + `"}`, 400},
		{"invalid JSON", "[" + strings.Repeat("{},", 20_000) + "]", 400},
		{"numbers", "[" + strings.Repeat("1,", 9_000) + `1,"` + strings.Repeat("x", 1<<20) + `"]`, 400},
	} {
		code := int32(0)
		allocations := testing.AllocsPerRun(1, func() {
			if _, err := parseJSONPatch([]byte(tt.body), ""); err != nil {
				code = StatusOf(err).Code
			}
		})
		if code != tt.want {
			t.Errorf("%s: code %d, want %d", tt.name, code, tt.want)
		}
		if code == 413 && allocations > 1000 {
			t.Errorf("%s: %.0f allocations", tt.name, allocations)
		}
	}
}

// TestQuotesAreLimited checks that error messages quote only the beginning of a request body.
func TestQuotesAreLimited(t *testing.T) {
	t.Parallel()
	err := invalidPatch(strings.Repeat("ä", 1<<20), errors.New("it is too long"))
	status := StatusOf(err)
	if n := len(status.Message); n > maxMessage+10 || n < maxMessage-10 || !utf8.ValidString(status.Message) {
		t.Errorf("a message of %d bytes", n)
	}
	if n := len(status.Details.Causes[0].Message); n > maxMessage+10 {
		t.Errorf("a cause of %d bytes", n)
	}
	if again := StatusOf(err); again.Message != status.Message {
		t.Error("StatusOf modified the error")
	}
}

// TestChangesCheckTheirContext checks that changes are not started or continued after the
// request's context has ended.
func TestChangesCheckTheirContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	begun := 0
	change := (&operation{}).withAdmission(func(context.Context, codec.Object) (codec.Object, error) {
		begun++
		cancel()
		return nil, nil // the following code would panic
	}, &metav1.UpdateOptions{})
	for range 2 {
		if _, err := change(ctx, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
	}
	if begun != 1 {
		t.Errorf("begun %d times", begun)
	}
}
