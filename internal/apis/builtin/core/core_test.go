package core_test

import (
	"context"
	"errors"

	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/core"
	"mainstay.dev/mainstay/internal/apis/builtin/policy"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage/storagetest"
)

// api contains the resources of the core group, with in-memory storage. Tests call them in the same way as the
// HTTP layer does.
type api struct {
	t         testing.TB
	resources map[string]*rest.Resource // keys such as "v1 pods/status"
}

func newAPI(t *testing.T) *api {
	t.Helper()
	return newAPIWith(t, feature.Defaults())
}

func newAPIWith(t *testing.T, gates feature.Gates) *api {
	t.Helper()
	backend := storagetest.InMemory(t)
	return buildAPI(t, &builtin.Env{
		Gates:    gates,
		EventTTL: time.Hour,
		Storage:  builtin.StorageEnv{Open: storagetest.Opener(backend)},
	})
}

// declared returns the resources of the core group without storage.
func declared(t testing.TB) *api {
	t.Helper()
	return buildAPI(t, &builtin.Env{})
}

func buildAPI(t testing.TB, env *builtin.Env) *api {
	a := &api{t: t, resources: map[string]*rest.Resource{}}
	resources, err := builtin.Build(env, []builtin.Group{core.V1(), policy.V1()})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range resources {
		a.resources[r.GroupVersion.String()+" "+r.FullName()] = r
	}
	return a
}

func (a *api) resource(name string) *rest.Resource {
	a.t.Helper()
	r, ok := a.resources[name]
	if !ok {
		a.t.Fatalf("no resource %q", name)
	}
	return r
}

func (a *api) create(resource string, obj codec.Object) codec.Object {
	a.t.Helper()
	created, err := a.tryCreate(resource, obj)
	if err != nil {
		a.t.Fatalf("create %s: %v", resource, err)
	}
	return created
}

func (a *api) tryCreate(resource string, obj codec.Object) (codec.Object, error) {
	a.t.Helper()
	r := a.resource(resource)
	hub, err := r.Version.ConvertToHub(obj)
	if err != nil {
		a.t.Fatal(err)
	}
	record, err := r.Storage.(rest.Creater).Create(context.Background(), hub, nil, metav1.CreateOptions{})
	return a.object(record, err)
}

// createNamed returns only an error, because the response body is a Status.
func (a *api) createNamed(resource string, name types.NamespacedName, obj codec.Object, dryRun ...string) error {
	a.t.Helper()
	record, err := a.resource(resource).Storage.(rest.NamedCreater).CreateNamed(context.Background(), name, obj, nil, metav1.CreateOptions{DryRun: dryRun})
	if err == nil && record != nil {
		a.t.Errorf("%s responds with %v, want a Status", resource, record.Name())
	}
	return err
}

func (a *api) get(resource string, name types.NamespacedName) codec.Object {
	a.t.Helper()
	obj, err := a.tryGet(resource, name)
	if err != nil {
		a.t.Fatalf("get %s %s: %v", resource, name, err)
	}
	return obj
}

func (a *api) tryGet(resource string, name types.NamespacedName) (codec.Object, error) {
	a.t.Helper()
	record, err := a.resource(resource).Storage.(rest.Getter).Get(context.Background(), name, metav1.GetOptions{})
	return a.object(record, err)
}

// update replaces an object, like a PUT. change modifies a copy of the current object.
func update[P codec.Object](a *api, resource string, name types.NamespacedName, change func(P)) (P, error) {
	a.t.Helper()
	r := a.resource(resource)
	record, _, err := r.Storage.(rest.Updater).Update(context.Background(), name, func(_ context.Context, current codec.Object) (codec.Object, error) {
		if current == nil {
			return nil, errors.New("update without an object")
		}
		changed := current.DeepCopyObject().(P)
		change(changed)
		if r.Version.Default != nil {
			r.Version.Default(changed)
		}
		return changed, nil
	}, rest.UpdateOptions{})
	obj, err := a.object(record, err)
	if err != nil {
		var none P
		return none, err
	}
	return obj.(P), nil
}

func mustUpdate[P codec.Object](a *api, resource string, name types.NamespacedName, change func(P)) P {
	a.t.Helper()
	obj, err := update(a, resource, name, change)
	if err != nil {
		a.t.Fatalf("update %s %s: %v", resource, name, err)
	}
	return obj
}

func (a *api) delete(resource string, name types.NamespacedName, options metav1.DeleteOptions) (obj codec.Object, gone bool) {
	a.t.Helper()
	record, gone, err := a.resource(resource).Storage.(rest.GracefulDeleter).Delete(context.Background(), name, nil, options)
	obj, err = a.object(record, err)
	if err != nil {
		a.t.Fatalf("delete %s %s: %v", resource, name, err)
	}
	return obj, gone
}

func (a *api) object(record *codec.Record, err error) (codec.Object, error) {
	if err != nil {
		return nil, err
	}
	obj, err := record.Object()
	if err != nil {
		a.t.Fatal(err)
	}
	return obj, nil
}

// wantMessage checks the message of an error. If message is empty, err must be nil.
func wantMessage(t *testing.T, err error, message string) {
	t.Helper()
	got := ""
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		got = status.Status().Message
	} else if err != nil {
		got = err.Error()
	}
	if got != message {
		t.Errorf("message:\n got %s\nwant %s", got, message)
	}
}

func in(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

func named(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func ptr[T any](v T) *T { return &v }
