package builtin

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
)

// Columns are how objects of a kind are shown in a table.
type Columns[T any] struct {
	Definitions []metav1.TableColumnDefinition
	// Cells returns one cell for each definition. now is the reference time of ages.
	Cells func(obj *T, now time.Time) []any
	// Conditions returns the row's conditions; may be nil.
	Conditions func(obj *T) []metav1.TableRowCondition
	// Arrange processes all rows of a list, if they depend on each other. It may modify cells, and
	// returns the order of the rows as indexes.
	Arrange func(list []*T, rows [][]any) (order []int)
}

// Column is a definition of a column that is always shown.
func Column(name, kind, description string) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: kind, Description: description}
}

// WideColumn is a definition of a column that is shown on demand.
func WideColumn(name, kind, description string) metav1.TableColumnDefinition {
	column := Column(name, kind, description)
	column.Priority = 1
	return column
}

// NameColumn is the definition of the column of names.
func NameColumn() metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: "Name", Type: "string", Format: "name", Description: metav1.ObjectMeta{}.SwaggerDoc()["name"]}
}

// AgeColumn is the definition of the column of ages.
func AgeColumn() metav1.TableColumnDefinition {
	return Column("Age", "string", metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"])
}

// Age is how long ago something was, in short form.
func Age(then metav1.Time, now time.Time) string {
	if then.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(then.Time))
}

// Table shows objects that are not of a row in columns.
func Table[T any, P object[T]](columns *Columns[T]) rest.TableConvertor {
	if columns.Arrange != nil {
		return arrangedTable[T, P]{table[T, P]{columns}}
	}
	return table[T, P]{columns}
}

// table adapts Columns to rest.TableConvertor.
type table[T any, P object[T]] struct{ columns *Columns[T] }

// arrangedTable is a table with rows that depend on each other.
type arrangedTable[T any, P object[T]] struct{ table[T, P] }

// Arrange implements rest.Arranger.
func (t arrangedTable[T, P]) Arrange(list []codec.Object, rows [][]any) ([]int, error) {
	objs := make([]*T, len(list))
	for i, obj := range list {
		typed, ok := obj.(P)
		if !ok {
			return nil, fmt.Errorf("table of %T cannot show a %T", *new(P), obj)
		}
		objs[i] = typed
	}
	return t.columns.Arrange(objs, rows), nil
}

func (t table[T, P]) Columns() []metav1.TableColumnDefinition { return t.columns.Definitions }

func (t table[T, P]) Cells(obj codec.Object, now time.Time) ([]any, []metav1.TableRowCondition, error) {
	typed, ok := obj.(P)
	if !ok {
		return nil, nil, fmt.Errorf("table of %T cannot show a %T", *new(P), obj)
	}
	var conditions []metav1.TableRowCondition
	if t.columns.Conditions != nil {
		conditions = t.columns.Conditions((*T)(typed))
	}
	return t.columns.Cells((*T)(typed), now), conditions, nil
}
