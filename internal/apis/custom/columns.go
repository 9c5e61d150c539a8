package custom

import (
	"bytes"
	"fmt"
	"reflect"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/util/jsonpath"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
)

// columns is the rest.TableConvertor of a version.
type columns struct{ handler *handler }

var _ rest.TableConvertor = columns{}

// Columns implements rest.TableConvertor. If the definition cannot be read, it returns only the Name column,
// and Cells returns the error.
func (c columns) Columns() []metav1.TableColumnDefinition {
	o, err := c.handler.open(c.handler.source.config.Lifetime)
	if err != nil {
		return []metav1.TableColumnDefinition{nameColumn()}
	}
	return o.table().definitions
}

// Cells implements rest.TableConvertor.
func (c columns) Cells(obj codec.Object, now time.Time) ([]any, []metav1.TableRowCondition, error) {
	o, err := c.handler.open(c.handler.source.config.Lifetime)
	if err != nil {
		return nil, nil, err
	}
	return o.table().cells(obj, now), nil, nil
}

// table contains the printer columns of a version.
type table struct {
	definitions []metav1.TableColumnDefinition
	columns     []*column // the columns after the name
}

// column computes a cell of an object. It is safe for concurrent use.
type column struct {
	kind       string // the OpenAPI type of the column
	multiplier multiplier
	mu         sync.Mutex
	path       *jsonpath.JSONPath // mu guards its state during a search
}

func nameColumn() metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: "Name", Type: "string", Format: "name", Description: metav1.ObjectMeta{}.SwaggerDoc()["name"]}
}

func newTable(wanted []apiextensionsv1.CustomResourceColumnDefinition) *table {
	age := apiextensionsv1.CustomResourceColumnDefinition{
		Name: "Age", Type: "date", JSONPath: ".metadata.creationTimestamp",
		Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"],
	}
	if len(wanted) == 0 {
		wanted = []apiextensionsv1.CustomResourceColumnDefinition{age}
	}
	t, err := makeTable(wanted)
	if err != nil {
		// As in kube-apiserver, an invalid path selects the default columns.
		t, _ = makeTable([]apiextensionsv1.CustomResourceColumnDefinition{age})
	}
	return t
}

func makeTable(wanted []apiextensionsv1.CustomResourceColumnDefinition) (*table, error) {
	t := &table{definitions: []metav1.TableColumnDefinition{nameColumn()}}
	for _, w := range wanted {
		path, text := jsonpath.New(w.Name), "{"+w.JSONPath+"}"
		if err := path.Parse(text); err != nil {
			return nil, fmt.Errorf("column %s: %w", w.Name, err)
		}
		path.AllowMissingKeys(true)
		description := w.Description
		if description == "" {
			description = "Custom resource definition column (in JSONPath format): " + w.JSONPath
		}
		t.definitions = append(t.definitions, metav1.TableColumnDefinition{
			Name: w.Name, Type: w.Type, Format: w.Format, Description: description, Priority: w.Priority,
		})
		t.columns = append(t.columns, &column{kind: w.Type, multiplier: multiplierOf(text), path: path})
	}
	return t, nil
}

func (t *table) cells(obj codec.Object, now time.Time) []any {
	cells := make([]any, 0, len(t.definitions))
	cells = append(cells, obj.GetName())
	for _, c := range t.columns {
		cells = append(cells, c.cell(content(obj), now))
	}
	return cells
}

// cell returns nil if the path finds no value, or if the search would visit too many values.
func (c *column) cell(doc map[string]any, now time.Time) any {
	if !c.multiplier.affordable(doc) {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	results, err := c.path.FindResults(doc)
	if err != nil || len(results) == 0 || len(results[0]) == 0 {
		return nil
	}
	value := results[0][0].Interface()
	if c.kind == "string" {
		var printed bytes.Buffer
		if c.path.PrintResults(&printed, []reflect.Value{reflect.ValueOf(value)}) != nil {
			return nil
		}
		return printed.String()
	}
	return cellOf(c.kind, value, now)
}

// cellOf returns the cell for a value in a column of the given type, or nil if the value does not have that
// type.
func cellOf(kind string, value any, now time.Time) any {
	switch value := value.(type) {
	case int64:
		switch kind {
		case "integer":
			return value
		case "number":
			return float64(value)
		}
	case float64:
		switch kind {
		case "integer":
			return int64(value)
		case "number":
			return value
		}
	case bool:
		if kind == "boolean" {
			return value
		}
	case string:
		if kind == "date" {
			return age(value, now)
		}
	}
	return nil
}

// age returns the time since a timestamp, in the format of kubectl's AGE column.
func age(text string, now time.Time) string {
	var then metav1.Time
	if err := then.UnmarshalQueryParameter(text); err != nil {
		return "<invalid>"
	}
	if then.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(then.Time))
}
