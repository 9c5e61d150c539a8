package history

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	fieldselection "k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage/archive"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/origin"
)

// Config configures a Storage. Its functions must be safe for concurrent use.
type Config struct {
	Archive *archive.Archive
	// Parse returns the object that is stored at a key, or false if the key does not belong to an object.
	Parse func(key string) (Object, bool)
	// Key returns the key at which an object is stored. The namespace is empty for cluster-scoped objects.
	Key func(resource schema.GroupResource, name types.NamespacedName) string
	// JSON returns the object in an entry as JSON, in its storage version.
	JSON func(ctx context.Context, entry *kv.Entry) ([]byte, error)
	// Allows reports whether the user of a request may read the history of an object. An empty name stands for
	// all objects of the resource in the namespace.
	Allows func(ctx context.Context, object Object) bool
	// Now returns the current time.
	Now func(ctx context.Context) time.Time
}

// Object identifies an object.
type Object struct {
	Resource schema.GroupResource
	types.NamespacedName
}

// Storage reads changes from an archive. It is safe for concurrent use.
type Storage struct {
	config Config
	kind   *codec.Kind
}

// Storage implements the verbs get, list and watch.
var (
	_ rest.Getter  = (*Storage)(nil)
	_ rest.Lister  = (*Storage)(nil)
	_ rest.Watcher = (*Storage)(nil)
)

// New returns the resource "changes".
func New(config Config) *rest.Resource {
	version := &codec.Version{GVK: GroupVersion().WithKind("Change"), New: newObject, Untyped: true}
	return &rest.Resource{
		GroupVersion: GroupVersion(), Name: Resource, Singular: "change", Namespaced: true,
		Version: version, Storage: &Storage{config: config, kind: &codec.Kind{Hub: version}}, Table: table{}, FieldLabel: fieldLabel,
	}
}

// fieldLabel returns its arguments if label is a known field selector, and an error otherwise.
func fieldLabel(label, value string) (key, converted string, err error) {
	var c Change
	if _, ok := c.field(label); !ok && label != sinceField && label != untilField {
		return "", "", fmt.Errorf("%q is not a known field selector: only metadata.name, metadata.namespace, object.resource, object.name, object.uid, operation, user, impersonatedBy, verb, fieldManager, since and until", label)
	}
	return label, value, nil
}

// maxChanges is the maximum number of changes in a response. Clients read further changes with the continue
// token.
const maxChanges = 5000

// List implements rest.Lister. It returns the changes in the order of their revisions.
func (s *Storage) List(ctx context.Context, namespace string, options rest.ListOptions) (*rest.List, error) {
	sel, err := s.selection(ctx, namespace, options)
	if err != nil {
		return nil, err
	}
	limit := maxChanges
	if options.Limit > 0 {
		limit = int(min(options.Limit, maxChanges))
	}
	found, more, err := s.read(ctx, sel, limit)
	if err != nil {
		return nil, err
	}
	// Changes that the first page did not have, because they were deleted before, may be missing.
	if missing := s.missing(sel, sel.after.revision); options.Continue != "" && len(missing) > sel.after.missing {
		return nil, expired("list", missing)
	}
	list := &rest.List{Revision: int64(sel.newest), Uncached: true, Items: func(yield func(*codec.Record, error) bool) {
		for _, record := range found {
			if !yield(record, nil) {
				return
			}
		}
	}}
	if more {
		sel.last.missing = len(s.missing(sel, sel.last.revision))
		list.Continue = sel.last.token()
	}
	return list, nil
}

// read returns up to limit selected changes, and sets sel.last to the last of them. more reports that there may
// be further changes.
func (s *Storage) read(ctx context.Context, sel *changeSelection, limit int) (found []*codec.Record, more bool, err error) {
	allowed, decoded := map[Object]bool{}, &decoder{json: s.config.JSON}
	var failed error
	visit := func(c *archive.Change) bool {
		object, _ := s.config.Parse(c.Key)
		if !sel.includes(c) || !s.allows(ctx, allowed, object) {
			return true
		}
		if len(found) == limit {
			more = true
			return false
		}
		change, err := s.change(ctx, object, c, decoded)
		if err != nil {
			failed = err
			return false
		}
		if !sel.matches(change) {
			return true
		}
		if !sel.states {
			change.Before, change.After = nil, nil
		}
		record, err := s.record(change)
		if err != nil {
			failed = err
			return false
		}
		found, sel.last = append(found, record), position{revision: c.Revision, key: c.Key}
		return true
	}
	if sel.key != "" {
		err = s.config.Archive.Versions(ctx, sel.key, sel.to, visit)
	}
	// Without a namespace, sel.key is the key of a cluster-scoped object, but the object may be namespaced.
	inNamespaces := sel.namespace == "" && len(found) == 0 && errors.Join(err, failed) == nil
	if sel.key == "" || inNamespaces {
		err = s.config.Archive.Changes(ctx, sel.from, sel.to, func(key string) bool {
			object, ok := s.config.Parse(key)
			return ok && sel.includesObject(object)
		}, visit)
	}
	return found, more, errors.Join(err, failed)
}

// allows reports whether the user may read the history of an object. It first checks whether the user may read
// the history of all objects of the resource in the namespace, and caches this result in cache.
func (s *Storage) allows(ctx context.Context, cache map[Object]bool, object Object) bool {
	all := Object{Resource: object.Resource, NamespacedName: types.NamespacedName{Namespace: object.Namespace}}
	allowed, ok := cache[all]
	if !ok {
		allowed = s.config.Allows(ctx, all)
		cache[all] = allowed
	}
	return allowed || s.config.Allows(ctx, object)
}

// Get implements rest.Getter.
func (s *Storage) Get(ctx context.Context, name types.NamespacedName, _ metav1.GetOptions) (*codec.Record, error) {
	missing := apierrors.NewNotFound(GroupVersion().WithResource(Resource).GroupResource(), name.Name)
	revision, ok := parseName(name.Name)
	if !ok {
		return nil, missing
	}
	newest, err := s.config.Archive.CatchUp(ctx)
	if err != nil {
		return nil, err
	}
	sel := &changeSelection{namespace: name.Namespace, to: newest}
	sel.selectName(revision)
	sel.fields = []fields.Requirement{{Field: "metadata.name", Operator: fieldselection.Equals, Value: name.Name}}
	found, _, err := s.read(ctx, sel, 1)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 || found[0].Name() != name {
		return nil, missing
	}
	return found[0], nil
}

// change converts a change in the archive to a change of the API.
func (s *Storage) change(ctx context.Context, object Object, c *archive.Change, decoded *decoder) (*Change, error) {
	o, err := origin.Decode(c.Origin)
	if err != nil {
		return nil, fmt.Errorf("read the origin of revision %d: %w", c.Revision, err)
	}
	change := &Change{
		ObjectMeta: metav1.ObjectMeta{
			Name: changeName(c.Revision, c.Key), Namespace: object.Namespace, CreationTimestamp: metav1.NewTime(c.Time),
		},
		Object:    ObjectReference{Resource: object.Resource.String(), Name: object.Name},
		Operation: operationOf(c), Revision: strconv.FormatInt(int64(c.Revision), 10),
		User: o.User, ImpersonatedBy: o.ImpersonatedBy, Verb: o.Verb, Subresource: o.Subresource,
		FieldManager: o.FieldManager, UserAgent: o.UserAgent, AuditID: o.AuditID,
	}
	if c.Before != nil && !c.Created() {
		change.PreviousRevision = strconv.FormatInt(int64(c.Before.Modified), 10)
	}
	return change, describe(ctx, change, c, decoded)
}

// describe sets the states of the object before and after the change, and the fields that depend on them.
func describe(ctx context.Context, change *Change, c *archive.Change, decoded *decoder) error {
	before, err := decoded.document(ctx, c.Before)
	if err != nil {
		return err
	}
	after, err := decoded.document(ctx, c.After)
	if err != nil {
		return err
	}
	return change.SetStates(before, after)
}

// SetStates sets the states of the object before and after the change. From the states, it sets the kind, UID
// and labels of the object and, for an update, the changed fields. The states are retained and not modified. It
// returns an error if the metadata of a state has unexpected types.
func (c *Change) SetStates(before, after map[string]any) error {
	c.Before, c.After = before, after
	var meta metav1.PartialObjectMetadata
	if state := c.State(); state != nil {
		if err := convert(state, &meta); err != nil {
			return err
		}
	}
	c.Object.APIVersion, c.Object.Kind, c.Object.UID, c.Labels = meta.APIVersion, meta.Kind, meta.UID, meta.Labels
	if c.Operation == Updated && before != nil && after != nil {
		c.Fields, c.FieldsTruncated = changedFields(before, after)
	}
	return nil
}

// State returns the state after the change or, if that is not available, the state before the change. It
// returns nil if neither state is available. The map is shared and must not be modified.
func (c *Change) State() map[string]any {
	if c.After == nil {
		return c.Before
	}
	return c.After
}

// IsComplete reports whether the states before and after the change are available. A creation needs no state
// before the change, and a deletion needs no state after it.
func (c *Change) IsComplete() bool {
	return (c.Before != nil || c.Operation == Created) && (c.After != nil || c.Operation == Deleted)
}

// decoder decodes entries. It caches the last document, because this is often the state before the next change
// of the same object.
type decoder struct {
	json     func(ctx context.Context, entry *kv.Entry) ([]byte, error)
	key      string
	revision kv.Revision
	last     map[string]any
}

// document returns the decoded JSON of an entry. It returns nil if entry is nil. It also returns nil, and no
// error, if the value cannot be decrypted or decoded, so that the rest of the change stays visible. The result
// must not be modified.
func (d *decoder) document(ctx context.Context, entry *kv.Entry) (map[string]any, error) {
	if entry == nil {
		return nil, nil
	}
	if d.key == entry.Key && d.revision == entry.Modified {
		return d.last, nil
	}
	text, err := d.json(ctx, entry)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	var document map[string]any
	if err == nil {
		document, _ = DecodeState(text) // nil after an error
	}
	d.key, d.revision, d.last = entry.Key, entry.Modified, document
	return document, nil
}

// DecodeState decodes the JSON of an object. Numbers are json.Number, because float64 does not represent all
// 64-bit integers. The caller owns the result.
func DecodeState(text []byte) (map[string]any, error) {
	numbers := json.NewDecoder(bytes.NewReader(text))
	numbers.UseNumber()
	var state map[string]any
	if err := numbers.Decode(&state); err != nil {
		return nil, err
	}
	return state, nil
}

// convert copies the API version, kind, UID and labels of a document.
func convert(document map[string]any, to *metav1.PartialObjectMetadata) error {
	metadata, _ := document["metadata"].(map[string]any)
	short := map[string]any{"apiVersion": document["apiVersion"], "kind": document["kind"], "metadata": map[string]any{"uid": metadata["uid"], "labels": metadata["labels"]}}
	text, err := json.Marshal(short)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, to)
}

func operationOf(c *archive.Change) Operation {
	switch {
	case c.Deleted:
		return Deleted
	case c.Created():
		return Created
	}
	return Updated
}

// record encodes a change as a record.
func (s *Storage) record(c *Change) (*codec.Record, error) {
	text, err := c.encode()
	if err != nil {
		return nil, fmt.Errorf("encode a change: %w", err)
	}
	revision, err := strconv.ParseInt(c.Revision, 10, 64)
	if err != nil {
		return nil, err
	}
	return codec.NewRecord(s.kind, types.NamespacedName{Namespace: c.Namespace, Name: c.Name}, text, revision), nil
}

// changeName returns the name of a change, which consists of its revision and a hash of the key.
func changeName(revision kv.Revision, key string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key)) // never fails
	return fmt.Sprintf("%d-%08x", revision, h.Sum32())
}

// parseName returns the revision in the name of a change, or false if the name is invalid.
func parseName(name string) (kv.Revision, bool) {
	first, _, ok := strings.Cut(name, "-")
	revision, err := strconv.ParseInt(first, 10, 64)
	return kv.Revision(revision), ok && err == nil && revision > 0
}

// position identifies the position of a change. Changes are ordered by revision, and by key within a revision.
type position struct {
	revision kv.Revision
	key      string
	// missing is the number of gaps and resources without all changes from revision on, at the time of the
	// list. If it has increased, changes after the position were deleted.
	missing int
}

// token returns the continue token for the page after p.
func (p position) token() string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d %d %s", p.revision, p.missing, p.key))
}

// parseToken parses a continue token. It returns false if the token is invalid.
func parseToken(token string) (position, bool) {
	text, err := base64.RawURLEncoding.DecodeString(token)
	parts := strings.SplitN(string(text), " ", 3)
	if err != nil || len(parts) != 3 {
		return position{}, false
	}
	revision, err := strconv.ParseInt(parts[0], 10, 64)
	missing, err2 := strconv.Atoi(parts[1])
	return position{kv.Revision(revision), parts[2], missing}, err == nil && err2 == nil && revision > 0
}
