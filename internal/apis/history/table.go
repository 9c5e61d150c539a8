package history

import (
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/duration"

	"mainstay.dev/mainstay/internal/codec"
)

func newObject() codec.Object { return &unstructured.Unstructured{} }

// table converts changes to table rows.
type table struct{}

// Columns implements rest.TableConvertor.
func (table) Columns() []metav1.TableColumnDefinition {
	column := func(name, description string, priority int32) metav1.TableColumnDefinition {
		return metav1.TableColumnDefinition{Name: name, Type: "string", Description: description, Priority: priority}
	}
	columns := []metav1.TableColumnDefinition{
		{Name: "Name", Type: "string", Format: "name", Description: "Name of the change, which begins with its revision"},
		column("Age", "Time since the change", 0), column("Operation", "Created, Updated or Deleted", 0),
		column("Resource", "Resource of the object", 0), column("Object", "Name of the object", 0),
		column("User", "User whose permissions applied", 0), column("Fields", "Changed fields", 0),
		column("Verb", "Verb of the request", 1), column("Manager", "Field manager of the request", 1), column("User-Agent", "User agent of the request", 1),
	}
	return columns
}

// Cells implements rest.TableConvertor.
func (table) Cells(obj codec.Object, now time.Time) ([]any, []metav1.TableRowCondition, error) {
	document, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil, nil, fmt.Errorf("a change is a %T", obj)
	}
	text, err := json.Marshal(document.Object)
	if err != nil {
		return nil, nil, err
	}
	var c Change
	if err := json.Unmarshal(text, &c); err != nil {
		return nil, nil, fmt.Errorf("decode a change: %w", err)
	}
	verb := c.Verb
	if c.Subresource != "" {
		verb += " " + c.Subresource
	}
	return []any{
		c.Name, duration.HumanDuration(now.Sub(c.CreationTimestamp.Time)), string(c.Operation), c.Object.Resource, c.Object.Name,
		c.User, c.summary(), verb, c.FieldManager, c.UserAgent,
	}, nil, nil
}
