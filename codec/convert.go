package codec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"mainstay.dev/mainstay/codec/jsonplan"
)

// Conversion, where a kind has one, takes asking somebody outside, and so time,
// and may fail. What is stored in another version than the hub's is therefore
// converted once per record, many records at a time, before it is looked at:
// whoever hands out records calls Convert first. The result is kept as what
// would have been stored in the hub version, for as long as the record lives.

// A question has no more than so many objects, or, from the second on, so many
// bytes of them.
const (
	MaxConverted      = 500
	MaxConvertedBytes = 4 << 20
)

// conversion is a stored value in the hub version, once it was converted. All
// records of the value share it.
type conversion struct {
	value atomic.Pointer[converted]
	// flight is the conversion under way, nil while there is none.
	flight atomic.Pointer[flight]
}

// converted is a document in the hub version.
type converted struct {
	// tail has the document, with the place for the resourceVersion. It begins
	// at 0 where that place was not found.
	tail storedTail
	// asStored: the stored value was in the hub version already.
	asStored bool
}

// newConverted encodes a document: its type and metadata first, so that nothing
// needs to be decoded to tell it with a resourceVersion.
func newConverted(gvk schema.GroupVersionKind, obj Object) (*converted, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if ok {
		if tail, ok := tailOf(gvk, u.Object); ok {
			return &converted{tail: tail}, nil
		}
	}
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	value, err := jsonplan.Marshal(obj)
	if err != nil {
		return nil, fmt.Errorf("encode converted %s: %w", obj.GetName(), err)
	}
	return &converted{tail: storedTail{value: value}}, nil
}

func tailOf(gvk schema.GroupVersionKind, document map[string]any) (t storedTail, ok bool) {
	metadata, ok := document["metadata"].(map[string]any)
	if !ok {
		return t, false
	}
	t.value = JSONHead(gvk)
	t.begin = len(t.value)
	t.value = append(t.value, `"metadata":{`...)
	t.at = len(t.value)
	if t.value, ok = jsonplan.AppendMembers(t.value, metadata, "resourceVersion"); !ok {
		return t, false
	}
	others := len(document)
	for _, name := range []string{"apiVersion", "kind", "metadata"} {
		if _, found := document[name]; found {
			others--
		}
	}
	if others > 0 {
		t.value = append(t.value, ',')
	}
	t.value, ok = jsonplan.AppendMembers(t.value, document, "apiVersion", "kind", "metadata")
	t.value = slices.Clip(t.value)
	return t, ok
}

// flight is a conversion under way, of so many records. err may be read once
// done is closed.
type flight struct {
	done chan struct{}
	size int
	err  error
}

// newConversion returns where the conversion of a stored value will be, nil
// where there is nothing to convert.
func (k *Kind) newConversion(value []byte) *conversion {
	if k.Convert == nil || value == nil || isStoredIn(value, k.Hub.GVK.GroupVersion()) {
		return nil
	}
	return &conversion{}
}

// isStoredIn tells whether a value was stored as a document of a version. It is
// false, too, where the value does not look like what EncodeStored writes.
func isStoredIn(value []byte, gv schema.GroupVersion) bool {
	rest, ok := bytes.CutPrefix(value, []byte(`{"apiVersion":"`))
	if !ok {
		return false
	}
	if gv.Group != "" {
		if rest, ok = cutText(rest, gv.Group); !ok || len(rest) == 0 || rest[0] != '/' {
			return false
		}
		rest = rest[1:]
	}
	rest, ok = cutText(rest, gv.Version)
	return ok && len(rest) > 0 && rest[0] == '"'
}

func cutText(b []byte, text string) ([]byte, bool) {
	if len(b) < len(text) || string(b[:len(text)]) != text {
		return nil, false
	}
	return b[len(text):], true
}

// Convert makes records of one kind readable without asking anybody any more.
// For most kinds, and records that were converted before, it does nothing. What
// several callers need is converted for all of them at once. An error is the
// kind's, or that of ctx.
func Convert(ctx context.Context, records ...*Record) error {
	var pending []*Record
	for _, r := range records {
		if r != nil && r.conversion != nil && r.conversion.value.Load() == nil {
			pending = append(pending, r)
		}
	}
	for len(pending) > 0 {
		mine, others := board(pending)
		if len(mine.records) > 0 {
			if err := mine.fly(ctx); err != nil {
				return err
			}
		}
		var err error
		if pending, err = await(ctx, others); err != nil {
			return err
		}
	}
	return nil
}

// boarded is a record with the conversion that it is part of.
type boarded struct {
	*Record
	*flight
}

// board takes on what nobody else is converting.
func board(pending []*Record) (mine crew, others []boarded) {
	ours := &flight{done: make(chan struct{})}
	mine.flight = ours
	for _, r := range pending {
		for {
			if r.conversion.flight.CompareAndSwap(nil, ours) {
				mine.records = append(mine.records, r)
				break
			}
			if theirs := r.conversion.flight.Load(); theirs == ours {
				break // another record of the same value
			} else if theirs != nil {
				others = append(others, boarded{r, theirs})
				break
			}
		}
	}
	return mine, others
}

// crew is a conversion and its records.
type crew struct {
	*flight
	records []*Record
}

var errAbandoned = errors.New("the conversion was abandoned")

// fly converts, and lets those who wait for it know.
func (c *crew) fly(ctx context.Context) error {
	c.err = errAbandoned // in case of a panic
	defer func() {
		for _, r := range c.records {
			r.conversion.flight.Store(nil)
		}
		close(c.done)
	}()
	c.size = len(c.records)
	c.err = c.records[0].kind.convertStored(ctx, c.records)
	return c.err
}

// await waits for what others are converting, and returns what they did not come
// to do. That they failed is believed where they were asking for nothing else:
// what has failed may be one of the others.
func await(ctx context.Context, others []boarded) (left []*Record, err error) {
	wanted := map[*flight]int{}
	for _, r := range others {
		wanted[r.flight]++
	}
	for _, r := range others {
		select {
		case <-r.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		switch err := r.err; {
		case r.conversion.value.Load() != nil:
		case err == nil, wanted[r.flight] < r.size:
			left = append(left, r.Record)
		case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
			left = append(left, r.Record) // they went away
		default:
			return nil, err
		}
	}
	return left, nil
}

// convertStored converts what is stored in other versions to the hub's.
func (k *Kind) convertStored(ctx context.Context, records []*Record) error {
	for len(records) > 0 {
		n, size := 0, 0
		for n < len(records) && n < MaxConverted && (n == 0 || size+len(records[n].value) <= MaxConvertedBytes) {
			size += len(records[n].value)
			n++
		}
		if err := k.convertTogether(ctx, records[:n]); err != nil {
			return err
		}
		records = records[n:]
	}
	return nil
}

func (k *Kind) convertTogether(ctx context.Context, records []*Record) error {
	objects, converting := make([]Object, 0, len(records)), make([]*Record, 0, len(records))
	for _, r := range records {
		if r.conversion.value.Load() != nil {
			continue // done when it was taken on
		}
		u, v, err := k.document(r.value)
		if err != nil {
			return fmt.Errorf("%w: %s: %w", ErrUndecodable, k.Hub.GVK.Kind, err)
		}
		if v.isHub() {
			r.conversion.value.Store(&converted{asStored: true})
			continue
		}
		if v.Default != nil {
			v.Default(u)
		}
		objects, converting = append(objects, u), append(converting, r)
	}
	if len(objects) == 0 {
		return nil
	}
	answers, err := k.Convert(ctx, objects, k.Hub)
	if err != nil {
		return err
	}
	for i, r := range converting {
		value, err := newConverted(k.Hub.GVK, answers[i])
		if err != nil {
			return err
		}
		r.conversion.value.Store(value)
	}
	return nil
}

// document reads a stored document, and says of which version it is.
func (k *Kind) document(value []byte) (*unstructured.Unstructured, *Version, error) {
	content, ok := jsonplan.DecodeDocument(value)
	if !ok {
		content = map[string]any{}
		if err := kjson.UnmarshalCaseSensitivePreserveInts(value, &content); err != nil {
			return nil, nil, err
		}
	}
	u := &unstructured.Unstructured{Object: content}
	v, err := k.storedVersion(u.GetAPIVersion(), u.GetKind())
	return u, v, err
}

// Converts tells whether the record is of a value that has to be converted before
// it is looked at, or had to be.
func (r *Record) Converts() bool { return r.conversion != nil }

// convertedTail returns the tail of what was converted.
func (r *Record) convertedTail() (storedTail, bool) {
	if r.conversion == nil {
		return storedTail{}, false
	}
	value := r.conversion.value.Load()
	if value == nil || value.tail.begin == 0 {
		return storedTail{}, false
	}
	return value.tail, true
}

// decode returns the object in the hub version. It is the caller's.
func (r *Record) decode() (Object, error) {
	if r.conversion == nil {
		return r.kind.DecodeStored(r.value, r.revision)
	}
	// Usually done before; those who did not wait now.
	if err := Convert(context.Background(), r); err != nil {
		return nil, err
	}
	value := r.conversion.value.Load()
	if value.asStored {
		return r.kind.DecodeStored(r.value, r.revision)
	}
	// What was converted is complete: it is neither defaulted nor pruned again.
	u, _, err := r.kind.document(value.tail.value)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrUndecodable, r.kind.Hub.GVK.Kind, err)
	}
	setRevision(u, r.revision)
	return u, nil
}
