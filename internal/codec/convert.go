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

	"mainstay.dev/mainstay/internal/codec/jsonplan"
)

// Kind.Convert may be a network call (a conversion webhook). Values stored in a version other than the hub
// version are therefore converted in batches, before they are decoded. Code that returns records must call
// Convert first; otherwise, methods of the records return ErrNotConverted. A record caches the converted
// value for its lifetime. Concurrent conversions are merged per record, similar to singleflight: a caller
// waits for the records that another call is converting, and converts the remaining records in a new call.

// MaxConverted and MaxConvertedBytes limit the number of objects in one call of Kind.Convert and the total
// size of their stored values. An object larger than MaxConvertedBytes is converted in a separate call.
const (
	MaxConverted      = 500
	MaxConvertedBytes = 4 << 20
)

// conversion holds the result of converting a stored value to the hub version. All records with this stored
// value share it.
type conversion struct {
	value atomic.Pointer[converted]
	// call is the conversion in progress, or nil.
	call atomic.Pointer[call]
}

// converted is a document in the hub version.
type converted struct {
	// tail is the document and the position at which a resourceVersion is inserted. tail.begin is 0 if this
	// position is unknown.
	tail storedTail
	// asStored means that the stored value was already in the hub version. tail is then empty.
	asStored bool
}

// newConverted encodes a converted object with its type and metadata first, so that a
// resourceVersion can be inserted without decoding.
func newConverted(gvk schema.GroupVersionKind, obj Object) (*converted, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if ok {
		if tail, ok := documentTail(gvk, u.Object); ok {
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

func documentTail(gvk schema.GroupVersionKind, document map[string]any) (t storedTail, ok bool) {
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

// call is a conversion in progress. size and err must not be read before done is closed.
type call struct {
	done chan struct{}
	size int // number of records
	err  error
}

// newConversion returns an empty conversion for a stored value, or nil if the value needs no conversion.
func (k *Kind) newConversion(value []byte) *conversion {
	if k.Convert == nil || value == nil || isStoredIn(value, k.Hub.GVK.GroupVersion()) {
		return nil
	}
	return &conversion{}
}

// isStoredIn reports whether a stored value has the given API version. It may return false for values that
// EncodeStored did not write.
func isStoredIn(value []byte, gv schema.GroupVersion) bool {
	rest, ok := bytes.CutPrefix(value, []byte(`{"apiVersion":"`))
	if !ok {
		return false
	}
	if gv.Group != "" {
		if rest, ok = cutPrefix(rest, gv.Group); !ok || len(rest) == 0 || rest[0] != '/' {
			return false
		}
		rest = rest[1:]
	}
	rest, ok = cutPrefix(rest, gv.Version)
	return ok && len(rest) > 0 && rest[0] == '"'
}

func cutPrefix(b []byte, text string) ([]byte, bool) {
	if len(b) < len(text) || string(b[:len(text)]) != text {
		return nil, false
	}
	return b[len(text):], true
}

// Convert converts records of one kind to the hub version, which most other methods of the records require.
// It ignores nil records, converted records, and kinds without Kind.Convert. It blocks while records are
// being converted, by this call or by concurrent calls. It returns the error of Kind.Convert or ctx, or
// ErrUndecodable if a stored value cannot be decoded. On error, some of the records may have been
// converted.
func Convert(ctx context.Context, records ...*Record) error {
	var pending []*Record
	for _, r := range records {
		if r != nil && r.conversion != nil && r.conversion.value.Load() == nil {
			pending = append(pending, r)
		}
	}
	for len(pending) > 0 {
		own, others := claimRecords(pending)
		if len(own.records) > 0 {
			if err := own.run(ctx); err != nil {
				return err
			}
		}
		var err error
		if pending, err = waitFor(ctx, others); err != nil {
			return err
		}
	}
	return nil
}

// recordInProgress is a record that another caller is converting.
type recordInProgress struct {
	*Record
	*call
}

// batch contains the records of one call.
type batch struct {
	*call
	records []*Record
}

// claimRecords assigns the unclaimed records to a new batch, own, and returns the other records
// with the calls that convert them.
func claimRecords(pending []*Record) (own batch, others []recordInProgress) {
	own.call = &call{done: make(chan struct{})}
	for _, r := range pending {
		for {
			if r.conversion.call.CompareAndSwap(nil, own.call) {
				own.records = append(own.records, r)
				break
			}
			if other := r.conversion.call.Load(); other == own.call {
				break // another record of the same value
			} else if other != nil {
				others = append(others, recordInProgress{r, other})
				break
			}
		}
	}
	return own, others
}

var errAbandoned = errors.New("conversion was aborted")

// run converts the batch and wakes the waiting callers.
func (b *batch) run(ctx context.Context) error {
	b.err = errAbandoned // in case of a panic
	defer func() {
		for _, r := range b.records {
			r.conversion.call.Store(nil)
		}
		close(b.done)
	}()
	b.size = len(b.records)
	b.err = b.records[0].kind.convertStored(ctx, b.records)
	return b.err
}

// waitFor waits for the calls of other callers, and returns the records that are still not converted. It
// returns the error of a call only if this caller waits for all records of the call; otherwise, a record of
// another caller may have caused the error.
func waitFor(ctx context.Context, others []recordInProgress) (left []*Record, err error) {
	waiting := map[*call]int{}
	for _, r := range others {
		waiting[r.call]++
	}
	for _, r := range others {
		select {
		case <-r.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		switch err := r.err; {
		case r.conversion.value.Load() != nil:
		case err == nil, waiting[r.call] < r.size:
			left = append(left, r.Record)
		case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
			left = append(left, r.Record) // the context of the other caller ended, not ctx
		default:
			return nil, err
		}
	}
	return left, nil
}

// convertStored converts records in batches within the limits of Kind.Convert.
func (k *Kind) convertStored(ctx context.Context, records []*Record) error {
	for len(records) > 0 {
		n, size := 0, 0
		for n < len(records) && n < MaxConverted && (n == 0 || size+len(records[n].value) <= MaxConvertedBytes) {
			size += len(records[n].value)
			n++
		}
		if err := k.convertBatch(ctx, records[:n]); err != nil {
			return err
		}
		records = records[n:]
	}
	return nil
}

func (k *Kind) convertBatch(ctx context.Context, records []*Record) error {
	objects, converting := make([]Object, 0, len(records)), make([]*Record, 0, len(records))
	for _, r := range records {
		if r.conversion.value.Load() != nil {
			continue // converted after the check in Convert
		}
		u, v, err := k.decodeDocument(r.value)
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
	results, err := k.Convert(ctx, objects, k.Hub)
	if err != nil {
		return err
	}
	for i, r := range converting {
		value, err := newConverted(k.Hub.GVK, results[i])
		if err != nil {
			return err
		}
		r.conversion.value.Store(value)
	}
	return nil
}

// decodeDocument decodes a stored JSON document, and returns its version.
func (k *Kind) decodeDocument(value []byte) (*unstructured.Unstructured, *Version, error) {
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

// NeedsConversion reports whether the record's value is stored in a version other than the hub version. The
// result stays true after the value has been converted.
func (r *Record) NeedsConversion() bool { return r.conversion != nil }

// convertedTail returns the tail of the converted document. It returns false if there is no converted
// document, or if a revision cannot be inserted into the document without decoding it.
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

// ErrNotConverted is wrapped by the errors of methods that need the hub version of a record if Convert was
// not called first. These methods cannot call Kind.Convert themselves, because they have no context.
var ErrNotConverted = errors.New("the stored object has not been converted to the hub version")

// decode returns a new object in the hub version, owned by the caller.
func (r *Record) decode() (Object, error) {
	if r.conversion == nil {
		return r.kind.DecodeStored(r.value, r.revision)
	}
	value := r.conversion.value.Load()
	if value == nil {
		return nil, fmt.Errorf("decode %s %s: %w", r.kind.Hub.GVK.Kind, r.name, ErrNotConverted)
	}
	if value.asStored {
		return r.kind.DecodeStored(r.value, r.revision)
	}
	// A converted document is complete: it is neither defaulted nor pruned again.
	u, _, err := r.kind.decodeDocument(value.tail.value)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrUndecodable, r.kind.Hub.GVK.Kind, err)
	}
	setRevision(u, r.revision)
	return u, nil
}
