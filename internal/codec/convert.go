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

// Kind.Convert may be a network call (a conversion webhook). A value that is stored in another
// version than the hub's is therefore converted once, many records per call, before it is decoded:
// code that returns records calls Convert first. The result is cached for the lifetime of the
// record, as if it had been stored in the hub version. Concurrent calls are merged for each record,
// as by singleflight: a record that another call is converting is awaited, and all others form a
// new call, a batch.

// Limits of one call of Kind.Convert. The bytes are of stored values, and do not
// limit the first object.
const (
	MaxConverted      = 500
	MaxConvertedBytes = 4 << 20
)

// conversion is the result of converting a stored value to the hub version. All
// records of the value share it.
type conversion struct {
	value atomic.Pointer[converted]
	// call is the conversion in progress, or nil.
	call atomic.Pointer[call]
}

// converted is a document in the hub version.
type converted struct {
	// tail has the document, with the place for the resourceVersion. It begins
	// at 0 where that place was not found.
	tail storedTail
	// asStored: the stored value was in the hub version already.
	asStored bool
}

// newConverted encodes a document, its type and metadata first, so that a
// resourceVersion can be put in without decoding.
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

// call is a conversion under way. err and size may be read once done is closed.
type call struct {
	done chan struct{}
	size int // number of records
	err  error
}

// newConversion returns an empty conversion of a stored value, nil for a value
// that is in the hub version.
func (k *Kind) newConversion(value []byte) *conversion {
	if k.Convert == nil || value == nil || isStoredIn(value, k.Hub.GVK.GroupVersion()) {
		return nil
	}
	return &conversion{}
}

// isStoredIn reports whether a value was stored as a document of a version. It
// may be false for a value that EncodeStored did not write.
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

// Convert converts records of one kind to the hub version, so that their other methods do not
// block. It ignores nil records, converted records, and kinds without Kind.Convert. It waits for
// records that a concurrent call converts. The error is that of Kind.Convert, of decoding
// (ErrUndecodable), or of ctx; some records may then be converted.
func Convert(ctx context.Context, records ...*Record) error {
	var pending []*Record
	for _, r := range records {
		if r != nil && r.conversion != nil && r.conversion.value.Load() == nil {
			pending = append(pending, r)
		}
	}
	for len(pending) > 0 {
		own, others := join(pending)
		if len(own.records) > 0 {
			if err := own.run(ctx); err != nil {
				return err
			}
		}
		var err error
		if pending, err = wait(ctx, others); err != nil {
			return err
		}
	}
	return nil
}

// joined is a record that is part of another caller's call.
type joined struct {
	*Record
	*call
}

// batch is the records that one call converts.
type batch struct {
	*call
	records []*Record
}

// join claims the records that are part of no call for a new one, own, and
// returns the others with the calls that they are part of.
func join(pending []*Record) (own batch, others []joined) {
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
				others = append(others, joined{r, other})
				break
			}
		}
	}
	return own, others
}

var errAbandoned = errors.New("the conversion was abandoned")

// run converts the batch and wakes the callers that joined it.
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

// wait waits for the calls of others, and returns the records that they left
// unconverted. It returns the error of a call only where the call was for no
// other records than these: otherwise one of the others may have caused it.
func wait(ctx context.Context, others []joined) (left []*Record, err error) {
	wanted := map[*call]int{}
	for _, r := range others {
		wanted[r.call]++
	}
	for _, r := range others {
		select {
		case <-r.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		switch err := r.err; {
		case r.conversion.value.Load() != nil:
		case err == nil, wanted[r.call] < r.size:
			left = append(left, r.Record)
		case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
			left = append(left, r.Record) // the caller's context ended, not this one
		default:
			return nil, err
		}
	}
	return left, nil
}

// convertStored converts records, in as many calls of Kind.Convert as the limits
// require.
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
			continue // converted between Convert and join
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

// document decodes a stored document, and returns the version it is in.
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

// Converts reports whether the record's value is stored in another version than
// the hub's, converted by now or not.
func (r *Record) Converts() bool { return r.conversion != nil }

// convertedTail returns the tail of the converted document. It returns false if there is none, or
// if its revision cannot be inserted without decoding.
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

// decode returns a new object in the hub version, owned by the caller.
func (r *Record) decode() (Object, error) {
	if r.conversion == nil {
		return r.kind.DecodeStored(r.value, r.revision)
	}
	// Callers should have called Convert; others block here.
	if err := Convert(context.Background(), r); err != nil {
		return nil, err
	}
	value := r.conversion.value.Load()
	if value.asStored {
		return r.kind.DecodeStored(r.value, r.revision)
	}
	// A converted document is complete: it is neither defaulted nor pruned again.
	u, _, err := r.kind.document(value.tail.value)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrUndecodable, r.kind.Hub.GVK.Kind, err)
	}
	setRevision(u, r.revision)
	return u, nil
}
