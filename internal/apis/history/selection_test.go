package history

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage/archive"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/embedded"
	"mainstay.dev/mainstay/internal/storage/storagetest"
)

// startArchive opens an archive that has the changes of a store and follows it until the test ends.
func startArchive(t *testing.T, backend *embedded.Store, config archive.Config) *archive.Archive {
	t.Helper()
	a, err := archive.Open(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() }) // the archive may already be closed
	if err := a.Start(t.Context(), backend); err != nil {
		t.Fatal(err)
	}
	if _, err := a.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	return a
}

// TestTimesWithoutHistory checks the fields since and until with times before the beginning of the history and
// in a gap in the history.
func TestTimesWithoutHistory(t *testing.T) {
	t.Parallel()
	backend, err := embedded.Open(embedded.Config{InMemory: true, Retention: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer backend.Close()
	dir := filepath.Join(t.TempDir(), "history")
	open := func() *archive.Archive {
		return startArchive(t, backend, archive.Config{Dir: dir, Prefix: "/registry/"})
	}
	put := func(name string) kv.Revision {
		res, err := backend.Commit(t.Context(), kv.Op{Key: "/registry/x/" + name, Value: []byte("{}"), Expect: kv.AnyRevision})
		if err != nil {
			t.Fatal(err)
		}
		return res.Revision
	}
	a := open()
	before := put("a")
	if _, err := a.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	gap := time.Now().UTC().Format(time.RFC3339Nano)
	put("a")
	inGap := put("a")
	if err := backend.Compact(t.Context(), inGap); err != nil {
		t.Fatal(err)
	}
	a = open()
	after := put("a")

	s := New(Config{
		Archive: a,
		Parse: func(key string) (Object, bool) {
			return Object{schema.GroupResource{Resource: "x"}, types.NamespacedName{Name: filepath.Base(key)}}, true
		},
		JSON:   func(_ context.Context, entry *kv.Entry) ([]byte, error) { return entry.Value, nil },
		Allows: func(context.Context, Object) bool { return true },
		Now:    func(context.Context) time.Time { return time.Now() },
	}).Storage.(rest.Lister)
	for selector, want := range map[string][]kv.Revision{
		"":                           {before, inGap, after},
		"since=2020-01-01T00:00:00Z": {before, inGap, after},
		"until=2020-01-01T00:00:00Z": nil,
		"since=" + gap:               {inGap, after},
		"until=" + gap:               {before},
	} {
		list, err := s.List(t.Context(), "", rest.ListOptions{Fields: fields.ParseSelectorOrDie(selector)})
		if err != nil {
			t.Fatalf("%s: %v", selector, err)
		}
		var got []kv.Revision
		list.Items(func(record *codec.Record, err error) bool {
			if err != nil {
				t.Error(err)
			}
			revision, _ := parseName(record.Name().Name)
			got = append(got, revision)
			return true
		})
		if !slices.Equal(got, want) {
			t.Errorf("%q selects the changes of the revisions %v, want %v", selector, got, want)
		}
	}
}

// TestWatchRange checks that a watch has the changes of its selector only, and that it fails if changes after its resourceVersion
// are no longer in the history.
func TestWatchRange(t *testing.T) {
	t.Parallel()
	backend := storagetest.InMemory(t)
	a, err := archive.Open(archive.Config{InMemory: true, Prefix: "/registry/"})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	put := func() kv.Revision {
		res, err := backend.Commit(t.Context(), kv.Op{Key: "/registry/x/a", Value: []byte("{}"), Expect: kv.AnyRevision})
		if err != nil {
			t.Fatal(err)
		}
		return res.Revision
	}
	lost := put()
	put()
	if err := backend.Compact(t.Context(), put()); err != nil {
		t.Fatal(err)
	}
	if err := a.Start(t.Context(), backend); err != nil {
		t.Fatal(err)
	}
	if _, err := a.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	oldest, _ := a.Oldest()
	first, second, third := put(), put(), put()
	if _, err := a.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := &Storage{config: Config{
		Archive: a,
		Parse: func(key string) (Object, bool) {
			return Object{schema.GroupResource{Resource: "x"}, types.NamespacedName{Name: filepath.Base(key)}}, true
		},
		JSON:   func(_ context.Context, entry *kv.Entry) ([]byte, error) { return entry.Value, nil },
		Allows: func(context.Context, Object) bool { return true },
	}, kind: &codec.Kind{Hub: &codec.Version{GVK: GroupVersion().WithKind("Change"), New: newObject, Untyped: true}}}
	watch := func(from kv.Revision, selector string) (rest.Watch, error) {
		return s.Watch(t.Context(), "", rest.ListOptions{ResourceVersion: strconv.FormatInt(int64(from), 10), Fields: fields.ParseSelectorOrDie(selector)})
	}
	for _, revision := range []kv.Revision{lost, oldest - 1} {
		if _, err := watch(revision, ""); !apierrors.IsResourceExpired(err) {
			t.Errorf("a watch after revision %d, the oldest being %d: error %v, want 410", revision, oldest, err)
		}
	}
	for _, test := range []struct {
		from     kv.Revision
		selector string
		want     []kv.Revision
	}{
		{oldest, "", []kv.Revision{first, second, third}},
		{first, "", []kv.Revision{second, third}},
		{first, fmt.Sprintf("until=rv/%d", second), []kv.Revision{second}},
		{second, fmt.Sprintf("until=rv/%d", second), nil},
		{first, fmt.Sprintf("since=rv/%d", second), []kv.Revision{third}},
	} {
		w, err := watch(test.from, test.selector)
		if err != nil {
			t.Fatal(err)
		}
		var got []kv.Revision
		for ctx := t.Context(); ; {
			if len(got) == len(test.want) { // Next would block
				done, cancel := context.WithCancel(t.Context())
				cancel()
				ctx = done
			}
			events, err := w.Next(ctx)
			if err != nil {
				break
			}
			for _, event := range events {
				revision, _ := parseName(event.Record.Name().Name)
				got = append(got, revision)
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("a watch after revision %d with %q has the changes of the revisions %v, want %v", test.from, test.selector, got, test.want)
		}
	}
}

// TestShorterRetention checks that neither a list nor a watch continues after changes of a selected resource that
// were deleted because of the retention of this resource.
func TestShorterRetention(t *testing.T) {
	t.Parallel()
	backend := storagetest.InMemory(t)
	rules := map[string]archive.Rule{"leases": {MaxVersions: 2}, "internal": {MaxVersions: 2}}
	a := startArchive(t, backend, archive.Config{InMemory: true, Prefix: "/registry/", Policy: archive.Policy{Resources: rules}})
	s := &Storage{config: Config{
		Archive: a,
		Parse: func(key string) (Object, bool) {
			resource := strings.Split(key, "/")[2]
			return Object{schema.GroupResource{Resource: resource}, types.NamespacedName{Name: filepath.Base(key)}}, resource != "internal"
		},
		Key: func(resource schema.GroupResource, name types.NamespacedName) string {
			return "/registry/" + resource.Resource + "/" + name.Name
		},
		JSON:   func(_ context.Context, entry *kv.Entry) ([]byte, error) { return entry.Value, nil },
		Allows: func(context.Context, Object) bool { return true },
	}, kind: &codec.Kind{Hub: &codec.Version{GVK: GroupVersion().WithKind("Change"), New: newObject, Untyped: true}}}
	put := func(resource string) kv.Revision {
		res, err := backend.Commit(t.Context(), kv.Op{Key: "/registry/" + resource + "/x", Value: []byte("{}"), Expect: kv.AnyRevision})
		if err != nil {
			t.Fatal(err)
		}
		return res.Revision
	}
	list := func(selector, token string) (*rest.List, error) {
		return s.List(t.Context(), "", rest.ListOptions{Fields: fields.ParseSelectorOrDie(selector), Limit: 1, Continue: token})
	}
	all, pods, leases := "", "object.resource=pods", "object.resource=leases"
	// check reads a second page of each selector, and continues a watch after a revision.
	check := func(tokens map[string]string, revision kv.Revision, want map[string]bool) {
		t.Helper()
		for selector, want := range want {
			_, err := list(selector, tokens[selector])
			if got := apierrors.IsResourceExpired(err); got != want || err != nil && !got {
				t.Errorf("a list of %q that continues: %v, want 410: %t", selector, err, want)
			}
			_, err = s.Watch(t.Context(), "", rest.ListOptions{Fields: fields.ParseSelectorOrDie(selector), ResourceVersion: strconv.FormatInt(int64(revision), 10)})
			if got := apierrors.IsResourceExpired(err); got != want || err != nil && !got {
				t.Errorf("a watch of %q after revision %d: %v, want 410: %t", selector, revision, err, want)
			}
		}
	}
	firstPages := func() map[string]string {
		t.Helper()
		tokens := map[string]string{}
		for _, selector := range []string{all, pods, leases} {
			page, err := list(selector, "")
			if err != nil || page.Continue == "" {
				t.Fatalf("the first page of %q: %+v, %v", selector, page, err)
			}
			tokens[selector] = page.Continue
		}
		return tokens
	}
	trim := func() {
		t.Helper()
		if err := a.Trim(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	put("pods")
	first := put("leases")
	put("pods")
	put("leases")
	tokens := firstPages()
	for range 5 {
		put("internal") // belongs to no object, so its deleted versions do not matter
	}
	trim()
	check(tokens, first, map[string]bool{all: false, pods: false, leases: false})

	w, err := s.Watch(t.Context(), "", rest.ListOptions{ResourceVersion: strconv.FormatInt(int64(first), 10)})
	if err != nil {
		t.Fatal(err)
	}
	put("leases")
	last := put("leases")
	idle, err := s.Watch(t.Context(), "", rest.ListOptions{
		ResourceVersion: strconv.FormatInt(int64(first), 10), Fields: fields.ParseSelectorOrDie("object.resource=nodes"), AllowBookmarks: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	idle.(*changeWatch).due = time.Time{}
	events, err := idle.Next(t.Context())
	if err != nil || len(events) != 1 || events[0].Type != watch.Bookmark || events[0].Revision < int64(last) {
		t.Errorf("a watch without selected changes: %+v, %v, want a bookmark of revision %d", events, err, last)
	}
	trim()
	check(tokens, first, map[string]bool{all: true, pods: false, leases: true})
	if _, err := w.Next(t.Context()); !apierrors.IsResourceExpired(err) {
		t.Errorf("a watch that has not read the deleted changes: %v, want 410", err)
	}
	check(firstPages(), last, map[string]bool{all: false, pods: false, leases: false})
}

// TestExpiredToken checks that a continue token is rejected if changes after the previous page are no longer in
// the history.
func TestExpiredToken(t *testing.T) {
	t.Parallel()
	backend := storagetest.InMemory(t)
	put := func(name string) kv.Revision {
		res, err := backend.Commit(t.Context(), kv.Op{Key: "/registry/x/" + name, Value: []byte("{}")})
		if err != nil {
			t.Fatal(err)
		}
		return res.Revision
	}
	lost := put("a")
	put("b")
	if err := backend.Compact(t.Context(), put("c")); err != nil {
		t.Fatal(err)
	}
	a := startArchive(t, backend, archive.Config{InMemory: true, Prefix: "/registry/"})
	oldest, _ := a.Oldest()
	s := &Storage{config: Config{Archive: a}}
	for revision, want := range map[kv.Revision]bool{lost: true, oldest: true, oldest + 1: false} {
		after := position{revision: revision, key: "/registry/x/a"}
		_, err := s.List(t.Context(), "", rest.ListOptions{Continue: after.token()})
		if got := apierrors.IsResourceExpired(err); got != want || err != nil && !got {
			t.Errorf("a list that continues after revision %d, the oldest being %d: %v, want 410: %t", revision, oldest, err, want)
		}
	}
}
