package definition_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/apis/custom/definition"
)

// recorded is a request that was sent to kube-apiserver, with the errors in the response. The request contains
// a complete definition in Body, or a definition that Patch creates from the base.
type recorded struct {
	Name    string
	Body    json.RawMessage
	Patch   json.RawMessage
	Causes  [][3]string // reason, field, message
	Warning string
	// Update is set if the request replaced the base.
	Update bool
	base   []byte
}

// TestRecorded compares the errors with those of kube-apiserver, regardless of their order.
func TestRecorded(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"definitions", "rules"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file, err := os.ReadFile("testdata/" + name + ".jsonl")
			if err != nil {
				t.Fatal(err)
			}
			checkFile(t, file)
		})
	}
}

func checkFile(t *testing.T, file []byte) {
	var base []byte
	lines := bufio.NewScanner(bytes.NewReader(file))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r recorded
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		if r.Name == "the base that patches change" {
			base = r.Body
		}
		if r.Patch != nil {
			patch, err := jsonpatch.DecodePatch(r.Patch)
			if err != nil {
				t.Fatal(err)
			}
			if r.Body, err = patch.Apply(base); err != nil {
				t.Fatalf("%s: apply the patch: %v", r.Name, err)
			}
		}
		r.base = base
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			checkRecorded(t, r)
		})
	}
}

// sent returns the definition that the server validates for a request body.
func sent(t *testing.T, body []byte) *apiextensionsv1.CustomResourceDefinition {
	var crd apiextensionsv1.CustomResourceDefinition
	if err := json.Unmarshal(body, &crd); err != nil {
		t.Fatal(err)
	}
	crd.Status = apiextensionsv1.CustomResourceDefinitionStatus{}
	definition.Default(&crd)
	definition.Prepare(&crd)
	return &crd
}

func checkRecorded(t *testing.T, r recorded) {
	crd := sent(t, r.Body)
	validate := func() field.ErrorList { return definition.Validate(t.Context(), crd) }
	if r.Update {
		old := sent(t, r.base)
		old.ResourceVersion, crd.ResourceVersion = "1", "1"
		validate = func() field.ErrorList { return definition.ValidateUpdate(t.Context(), crd, old) }
	}
	var got []string
	for _, fault := range validate() {
		got = append(got, line(causeOf(fault)))
	}
	var want []string
	for _, cause := range r.Causes {
		want = append(want, line(cause))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
	if warnings := strings.Join(definition.Warnings(crd), "\n"); r.Warning != "" && warnings != r.Warning {
		t.Errorf("warnings %q, want %q", warnings, r.Warning)
	}
}

// causeOf returns the cause that a client receives in the Status.
func causeOf(fault *field.Error) [3]string {
	return [3]string{string(fault.Type), fault.Field, fault.ErrorBody()}
}

func line(cause [3]string) string { return cause[0] + " | " + cause[1] + " | " + cause[2] }
