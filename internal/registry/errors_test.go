package registry_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/registry"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/kv"
)

// brokenStorage always returns the same error.
type brokenStorage struct {
	storage.Interface
	err error
	// late makes lists fail during iteration, and watches in Next.
	late bool
}

func (s *brokenStorage) Create(context.Context, codec.Object, storage.WriteOptions) (*codec.Record, error) {
	return nil, s.err
}

func (s *brokenStorage) Get(context.Context, types.NamespacedName, storage.ReadOptions) (*codec.Record, error) {
	return nil, s.err
}

func (s *brokenStorage) Update(context.Context, types.NamespacedName, storage.UpdateFunc, storage.UpdateOptions) (*codec.Record, error) {
	return nil, s.err
}

func (s *brokenStorage) List(context.Context, string, rest.ListOptions) (*rest.List, error) {
	if !s.late {
		return nil, s.err
	}
	return &rest.List{Items: func(yield func(*codec.Record, error) bool) { yield(nil, s.err) }}, nil
}

func (s *brokenStorage) Watch(context.Context, string, rest.ListOptions) (rest.Watch, error) {
	if !s.late {
		return nil, s.err
	}
	return storage.FailedWatch(s.err), nil
}

// callAll calls every verb and returns the errors by verb.
func callAll(e *env) map[string]error {
	e.Helper()
	_, create := e.Create(e.ctx, pod("p"), nil, metav1.CreateOptions{})
	_, get := e.Get(e.ctx, key("p"), metav1.GetOptions{})
	_, _, update := e.put(pod("p"), noOptions())
	_, _, remove := e.Delete(e.ctx, key("p"), nil, metav1.DeleteOptions{})
	_, part := e.change(statusPart(e.Store), "p", nil, noOptions())
	list := func() error {
		list, err := e.List(e.ctx, "a", rest.ListOptions{})
		if err != nil {
			return err
		}
		for _, err := range list.Items {
			return err
		}
		return nil
	}
	watch := func() error {
		w, err := e.Watch(e.ctx, "a", rest.ListOptions{})
		if err != nil {
			return err
		}
		_, err = w.Next(e.ctx)
		return err
	}
	_, collection := e.DeleteCollection(e.ctx, "a", nil, metav1.DeleteOptions{}, rest.ListOptions{})
	return map[string]error{"create": create, "get": get, "update": update, "delete": remove, "status": part,
		"list": list(), "watch": watch(), "deletecollection": collection}
}

// TestErrors checks that every verb returns the same Status for an error of the storage.
func TestErrors(t *testing.T) {
	t.Parallel()
	details := func(name string) *metav1.StatusDetails { return &metav1.StatusDetails{Name: name, Kind: "pods"} }
	failure := func(code int32, reason metav1.StatusReason, message string, details *metav1.StatusDetails) metav1.Status {
		return metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message, Details: details}
	}
	changed := failure(409, "Conflict", `Operation cannot be fulfilled on pods "p": StorageError: invalid object, Code: 4, Key: /registry/pods/a/p, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: x, UID in object meta: y`, details("p"))
	unknownOutcome := failure(503, "ServiceUnavailable", "storage is unavailable: storage backend is unavailable", nil)
	tooLarge := []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"}}
	for name, test := range map[string]struct {
		err  error
		want metav1.Status
		// update is the Status of updates if it differs, and write the Status of all writes. Both may be nil.
		update, write *metav1.Status
		// named reports that details and message contain the object's name.
		named bool
	}{
		"not found": {err: storage.ErrNotFound, want: failure(404, "NotFound", `pods "p" not found`, details("p")), named: true},
		"exists":    {err: storage.ErrExists, want: failure(409, "AlreadyExists", `pods "p" already exists`, details("p")), named: true},
		"precondition": {err: &storage.PreconditionError{Field: "UID", Want: "x", Got: "y", Key: "/registry/pods/a/p"}, named: true, update: &changed,
			want: failure(409, "Conflict", `Operation cannot be fulfilled on Pod "p": the UID in the precondition (x) does not match the UID in record (y). The object might have been deleted and then recreated`, &metav1.StatusDetails{Name: "p", Kind: "Pod"})},
		"future": {err: &storage.FutureRevisionError{Requested: 9, Current: 5},
			want: failure(504, "Timeout", "Timeout: Too large resource version: 9, current: 5", &metav1.StatusDetails{RetryAfterSeconds: 1, Causes: tooLarge})},
		"expired": {err: &storage.ExpiredError{Message: "too old"}, want: failure(410, "Expired", "too old", nil)},
		"expired, continued": {err: &storage.ExpiredError{Message: "too old", Continue: "token"},
			want: func() metav1.Status {
				s := failure(410, "Expired", "too old", nil)
				s.Continue = "token"
				return s
			}()},
		"bad option":  {err: &storage.InvalidOptionError{Message: "no"}, want: failure(400, "BadRequest", "no", nil)},
		"bad version": {err: field.Invalid(field.NewPath("resourceVersion"), "abc", "no"), want: failure(400, "BadRequest", `resourceVersion: Invalid value: "abc": no`, nil)},
		"too large":   {err: storage.ErrTooLarge, want: failure(413, "RequestEntityTooLarge", "Request entity too large: object is too large to be stored", nil)},
		"no space": {err: kv.ErrNoSpace, want: failure(507, "InternalError",
			"the server cannot store anything until space is freed on its disk: no space left for the store", nil)},
		"unavailable": {err: kv.ErrUnavailable, write: &unknownOutcome, want: failure(503, "ServiceUnavailable", "storage is unavailable: storage backend is unavailable", &metav1.StatusDetails{RetryAfterSeconds: 1})},
		"closed":      {err: kv.ErrClosed, want: failure(503, "ServiceUnavailable", "storage is unavailable: store is closed", &metav1.StatusDetails{RetryAfterSeconds: 1})},
		"an API error": {err: apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "q", errors.New("no")),
			want: failure(403, "Forbidden", `pods "q" is forbidden: no`, details("q"))},
		"anything else": {err: errors.New("trouble")},
	} {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/late=%v", name, late), func(t *testing.T) {
				t.Parallel()
				e := newEnv(t, nil, func(s storage.Interface) storage.Interface { return &brokenStorage{s, test.err, late} })
				for verb, err := range callAll(e) {
					if err == nil {
						t.Errorf("%s: no error", verb)
						continue
					}
					got := statusOf(err)
					want := test.want
					if test.update != nil && (verb == "update" || verb == "status") {
						want = *test.update
					}
					if test.write != nil && slices.Contains([]string{"create", "update", "status", "delete"}, verb) {
						want = *test.write
					}
					many := verb == "list" || verb == "watch" || verb == "deletecollection"
					if many && test.named {
						if got.Code != test.want.Code || got.Reason != test.want.Reason {
							t.Errorf("%s: %d %s, want %d %s", verb, got.Code, got.Reason, test.want.Code, test.want.Reason)
						}
						continue
					}
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("%s (-want +got):\n%s", verb, diff)
					}
					if test.want.Code == 0 && !errors.Is(err, test.err) {
						t.Errorf("%s: error %v does not wrap its cause", verb, err)
					}
				}
			})
		}
	}
}

func TestErrorsSurviveWrapping(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil, func(s storage.Interface) storage.Interface {
		return &brokenStorage{s, fmt.Errorf("get /registry/pods/a/p: %w", &storage.ExpiredError{Message: "too old"}), false}
	})
	for verb, err := range callAll(e) {
		if got := statusOf(err); got.Code != 410 || got.Message != "too old" {
			t.Errorf("%s: code %d, message %q, want 410, too old", verb, got.Code, got.Message)
		}
	}
}

func TestEndOfAWatchIsNoError(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil, func(s storage.Interface) storage.Interface { return &brokenStorage{s, rest.ErrWatchClosed, true} })
	w, err := e.Watch(e.ctx, "a", rest.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Next(e.ctx); err != rest.ErrWatchClosed {
		t.Errorf("error %v; want ErrWatchClosed itself", err)
	}
}

func TestReads(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil, nil)
	created := e.create(pod("p"))
	for version, code := range map[string]int32{
		"": 0, "0": 0, "1": 0, created.ResourceVersion: 0, "999999": 504, "abc": 400, "-1": 400,
	} {
		_, err := e.Get(e.ctx, key("p"), metav1.GetOptions{ResourceVersion: version})
		if got := statusOf(err).Code; got != code || code == 0 && err != nil {
			t.Errorf("resourceVersion %q: %v; want code %d", version, err, code)
		}
	}
	for _, name := range []string{"", ".", "..", "a/b", "a%b"} {
		_, err := e.Get(e.ctx, key(name), metav1.GetOptions{})
		if statusOf(err).Code != 400 {
			t.Errorf("name %q: %v; want 400", name, err)
		}
	}
	list, err := e.List(e.ctx, "", rest.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a/p"}, names(t, list)); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
}

// TestManyFaults checks that only the first of very many or very long errors are returned, with a note that
// there are more.
func TestManyFaults(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<20)
	for _, tt := range []struct {
		name  string
		count int
		fault func(i int) *field.Error
		want  int // 0 means all
	}{
		{"many", 200_000, func(i int) *field.Error { return field.Required(field.NewPath("spec").Index(i), "") }, 1000},
		{"the maximum", 1000, func(i int) *field.Error { return field.Required(field.NewPath("spec").Index(i), "") }, 0},
		{"long values", 1000, func(i int) *field.Error { return field.Invalid(field.NewPath("spec").Index(i), long, "") }, 3},
		{"long paths", 1000, func(i int) *field.Error { return field.Required(field.NewPath("spec").Index(i).Key(long), "") }, 3},
		{"very long values", 2, func(i int) *field.Error {
			return field.Invalid(field.NewPath("spec").Index(i), strings.Repeat(long, 5), "")
		}, 1},
		{"one very long value", 1, func(i int) *field.Error {
			return field.Invalid(field.NewPath("spec").Index(i), strings.Repeat(long, 5), "")
		}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var faults field.ErrorList
			for i := range tt.count {
				faults = append(faults, tt.fault(i))
			}
			e := newEnv(t, &registry.Strategy{
				Validate: func(context.Context, codec.Object) field.ErrorList { return faults },
			}, nil)
			_, err := e.Create(e.ctx, pod("p"), nil, metav1.CreateOptions{})
			status := statusOf(err)
			want := tt.count
			if tt.want > 0 {
				want = tt.want + 1 // with the note
			}
			if status.Code != 422 || len(status.Details.Causes) != want {
				t.Fatalf("code %d with %d causes, want 422 with %d", status.Code, len(status.Details.Causes), want)
			}
			if first := status.Details.Causes[0]; !strings.HasPrefix(first.Field, "spec[0]") {
				t.Errorf("the first cause is about %.100s", first.Field)
			}
			note := fmt.Sprintf("Invalid value: only the first %d faults are listed", tt.want)
			if last := status.Details.Causes[want-1]; (last.Message == note) != (tt.want > 0) {
				t.Errorf("the last cause is %.100s", last.Message)
			}
		})
	}
}
