package endpoints

import (
	"bytes"
	"fmt"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/codec/jsonplan"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/simulation"
)

// defaultColumns are the columns of kinds that declare no columns.
type defaultColumns struct{}

func (defaultColumns) Columns() []metav1.TableColumnDefinition {
	docs := metav1.ObjectMeta{}.SwaggerDoc()
	return []metav1.TableColumnDefinition{
		{Name: "Name", Type: "string", Format: "name", Description: docs["name"]},
		{Name: "Created At", Type: "date", Description: docs["creationTimestamp"]},
	}
}

func (defaultColumns) Cells(obj codec.Object, _ time.Time) ([]any, []metav1.TableRowCondition, error) {
	return []any{obj.GetName(), obj.GetCreationTimestamp().Time.UTC().Format(time.RFC3339)}, nil, nil
}

// tableBuilder builds the Tables of a response.
type tableBuilder struct {
	convertor rest.TableConvertor
	version   *codec.Version
	gv        schema.GroupVersion
	include   metav1.IncludeObjectPolicy
	clock     *simulation.Simulation // determines ages; nil means the real clock
}

func (c *call) tableBuilder(t target) (*tableBuilder, error) {
	include, err := c.includeObject()
	if err != nil {
		return nil, err
	}
	m := &tableBuilder{convertor: c.resource.Table, version: c.resource.Version, gv: t.viewVersion, include: include, clock: simulation.From(c.r.Context())}
	if m.convertor == nil {
		m.convertor = defaultColumns{}
	}
	return m, nil
}

func (m *tableBuilder) table(meta metav1.ListMeta, columns bool) *metav1.Table {
	t := &metav1.Table{ListMeta: meta}
	if _, plain := m.convertor.(defaultColumns); !plain {
		t.Rows = []metav1.TableRow{} // as in kube-apiserver, rows is null only for kinds without declared columns
	}
	t.SetGroupVersionKind(m.gv.WithKind("Table"))
	if columns {
		t.ColumnDefinitions = m.convertor.Columns()
	}
	return t
}

func (m *tableBuilder) row(record *codec.Record) (metav1.TableRow, error) {
	obj, err := record.Shared()
	if err != nil {
		return metav1.TableRow{}, err
	}
	cells, conditions, err := m.convertor.Cells(obj, m.clock.Now())
	if err != nil {
		return metav1.TableRow{}, err
	}
	row := metav1.TableRow{Cells: cells, Conditions: conditions}
	switch m.include {
	case metav1.IncludeNone:
	case metav1.IncludeObject:
		whole, err := m.version.Object(record)
		if err != nil {
			return row, err
		}
		row.Object = runtime.RawExtension{Object: whole}
	default:
		row.Object = runtime.RawExtension{Object: partialOf(obj, m.gv)}
	}
	return row, nil
}

// encodeTableOf encodes a Table with one row.
func (c *call) encodeTableOf(t target, record *codec.Record) ([]byte, error) {
	m, err := c.tableBuilder(t)
	if err != nil {
		return nil, err
	}
	obj, err := record.Shared()
	if err != nil {
		return nil, err
	}
	table := m.table(metav1.ListMeta{ResourceVersion: obj.GetResourceVersion()}, true)
	row, err := m.row(record)
	if err != nil {
		return nil, err
	}
	table.Rows = append(table.Rows, row)
	return codec.AppendObject(nil, table, t.media)
}

func (c *call) respondTable(t target, list *rest.List) error {
	m, err := c.tableBuilder(t)
	if err != nil {
		return err
	}
	if sorter, ok := m.convertor.(rest.RowSorter); ok {
		return c.respondSorted(t, list, m, sorter)
	}
	table := m.table(listMeta(list), true)
	head, err := codec.AppendObject(nil, table, codec.JSON)
	if err != nil {
		return err
	}
	form := &listForm{empty: "null", item: func(dst []byte, record *codec.Record) ([]byte, error) {
		row, err := m.row(record)
		if err != nil {
			return nil, err
		}
		return jsonplan.Append(dst, &row)
	}}
	if table.Rows != nil {
		form.empty = "[]"
	}
	form.head = bytes.TrimSuffix(head, []byte(form.empty+foot))
	return c.streamList(t, list, form)
}

// respondSorted responds with a table whose rows depend on each other. The complete table is therefore in
// memory.
func (c *call) respondSorted(t target, list *rest.List, m *tableBuilder, sorter rest.RowSorter) error {
	table := m.table(metav1.ListMeta{}, true)
	var objects []codec.Object
	held := 0
	for record, err := range list.Items {
		if err != nil {
			return err
		}
		held += record.StoredSize()
		if err := c.reserveList(held); err != nil {
			return err
		}
		row, err := m.row(record)
		if err != nil {
			return err
		}
		obj, err := record.Shared()
		if err != nil {
			return err
		}
		table.Rows, objects = append(table.Rows, row), append(objects, obj)
	}
	var err error
	if table.Rows, err = sortRows(sorter, objects, table.Rows); err != nil {
		return err
	}
	table.ListMeta = listMeta(list)
	return respondObject(c.w, c.r, t, http.StatusOK, table)
}

// sortRows calls sorter to change and reorder the rows of a list.
func sortRows(sorter rest.RowSorter, objects []codec.Object, rows []metav1.TableRow) ([]metav1.TableRow, error) {
	cells := make([][]any, len(rows))
	for i := range rows {
		cells[i] = rows[i].Cells
	}
	order, err := sorter.SortRows(objects, cells)
	if err != nil {
		return nil, err
	}
	arranged := make([]metav1.TableRow, 0, len(rows))
	for _, i := range order {
		rows[i].Cells = cells[i]
		arranged = append(arranged, rows[i])
	}
	return arranged, nil
}

// partialOf returns the metadata of an object.
func partialOf(obj codec.Object, gv schema.GroupVersion) *metav1.PartialObjectMetadata {
	p := &metav1.PartialObjectMetadata{}
	if accessor, ok := obj.(metav1.ObjectMetaAccessor); ok {
		if meta, ok := accessor.GetObjectMeta().(*metav1.ObjectMeta); ok {
			p.ObjectMeta = *meta
			p.SetGroupVersionKind(gv.WithKind("PartialObjectMetadata"))
			return p
		}
	}
	p.ObjectMeta = metav1.ObjectMeta{
		Name: obj.GetName(), GenerateName: obj.GetGenerateName(), Namespace: obj.GetNamespace(), UID: obj.GetUID(),
		ResourceVersion: obj.GetResourceVersion(), Generation: obj.GetGeneration(), CreationTimestamp: obj.GetCreationTimestamp(),
		DeletionTimestamp: obj.GetDeletionTimestamp(), DeletionGracePeriodSeconds: obj.GetDeletionGracePeriodSeconds(),
		Labels: obj.GetLabels(), Annotations: obj.GetAnnotations(), OwnerReferences: obj.GetOwnerReferences(),
		Finalizers: obj.GetFinalizers(), ManagedFields: obj.GetManagedFields(), SelfLink: obj.GetSelfLink(),
	}
	p.SetGroupVersionKind(gv.WithKind("PartialObjectMetadata"))
	return p
}

func encodePartial(t target, record *codec.Record) ([]byte, error) {
	obj, err := record.Shared()
	if err != nil {
		return nil, err
	}
	return codec.AppendObject(nil, partialOf(obj, t.viewVersion), t.media)
}

// partialForm describes the list of the objects' metadata in JSON.
func partialForm(t target, list *rest.List) (*listForm, error) {
	partials := &metav1.PartialObjectMetadataList{ListMeta: listMeta(list), Items: []metav1.PartialObjectMetadata{}}
	partials.SetGroupVersionKind(t.viewVersion.WithKind("PartialObjectMetadataList"))
	head, err := codec.AppendObject(nil, partials, codec.JSON)
	if err != nil {
		return nil, err
	}
	return &listForm{
		head: bytes.TrimSuffix(head, []byte("[]"+foot)), empty: "[]",
		item: func(dst []byte, record *codec.Record) ([]byte, error) {
			obj, err := record.Shared()
			if err != nil {
				return nil, fmt.Errorf("read %s: %w", record.Name(), err)
			}
			return jsonplan.Append(dst, partialOf(obj, t.viewVersion))
		},
	}, nil
}
