package builtin

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
)

// Columns describes the table columns of a kind. O is a pointer to the Go type of the kind.
type Columns[O codec.Object] struct {
	Definitions []metav1.TableColumnDefinition
	// Cells returns one cell for each definition. Ages are relative to now.
	Cells func(obj O, now time.Time) []any
	// Conditions returns the conditions of the object's table row; it may be nil.
	Conditions func(obj O) []metav1.TableRowCondition
	// SortRows processes all rows of a list together, for kinds whose rows depend on each other; it may be
	// nil. It may modify cells. It returns the new order of the rows, as indexes into list.
	SortRows func(list []O, rows [][]any) (order []int)
}

// Column returns the definition of a column that is always shown.
func Column(name, kind, description string) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: kind, Description: description}
}

// WideColumn returns the definition of a column that is shown on request (kubectl get -o wide).
func WideColumn(name, kind, description string) metav1.TableColumnDefinition {
	column := Column(name, kind, description)
	column.Priority = 1
	return column
}

// NameColumn returns the definition of the name column.
func NameColumn() metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: "Name", Type: "string", Format: "name", Description: metav1.ObjectMeta{}.SwaggerDoc()["name"]}
}

// AgeColumn returns the definition of the age column.
func AgeColumn() metav1.TableColumnDefinition {
	return Column("Age", "string", metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"])
}

// Age formats the duration from then to now, for example "5d", or "<unknown>" for a zero then.
func Age(then metav1.Time, now time.Time) string {
	if then.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(then.Time))
}

// Table returns a converter that renders objects with the given columns. It is exported for objects that do
// not belong to a row.
func Table[O codec.Object](columns *Columns[O]) rest.TableConvertor {
	if columns.SortRows != nil {
		return sortedTable[O]{table[O]{columns}}
	}
	return table[O]{columns}
}

// table adapts Columns to rest.TableConvertor.
type table[O codec.Object] struct{ columns *Columns[O] }

// sortedTable is a table whose rows depend on each other.
type sortedTable[O codec.Object] struct{ table[O] }

// SortRows implements rest.RowSorter.
func (t sortedTable[O]) SortRows(list []codec.Object, rows [][]any) ([]int, error) {
	objs := make([]O, len(list))
	for i, obj := range list {
		var err error
		if objs[i], err = t.typed(obj); err != nil {
			return nil, err
		}
	}
	return t.columns.SortRows(objs, rows), nil
}

// Columns implements rest.TableConvertor.
func (t table[O]) Columns() []metav1.TableColumnDefinition { return t.columns.Definitions }

// Cells implements rest.TableConvertor.
func (t table[O]) Cells(obj codec.Object, now time.Time) ([]any, []metav1.TableRowCondition, error) {
	shown, err := t.typed(obj)
	if err != nil {
		return nil, nil, err
	}
	var conditions []metav1.TableRowCondition
	if t.columns.Conditions != nil {
		conditions = t.columns.Conditions(shown)
	}
	return t.columns.Cells(shown, now), conditions, nil
}

func (t table[O]) typed(obj codec.Object) (O, error) {
	shown, ok := obj.(O)
	if !ok {
		return shown, fmt.Errorf("table of %T cannot show a %T", shown, obj)
	}
	return shown, nil
}
