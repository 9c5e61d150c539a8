package registry_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/registry"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
)

// addresses assigns an address from a range to each pod. An address is a separate object that is written and
// deleted together with the pod. reserved is the number of transactions that were begun and not rolled back.
type addresses struct {
	storage.Interface
	size     int
	begun    atomic.Int64
	reserved atomic.Int64
	// meanwhile, if set, is called after an address was selected.
	meanwhile func(address string)
}

func addressName(i int) string { return fmt.Sprintf("address-%d", i) }

// free returns an unassigned address.
func (a *addresses) free(ctx context.Context) (string, error) {
	for i := range a.size {
		name := addressName(i)
		if _, err := a.Get(ctx, key(name), storage.ReadOptions{}); errors.Is(err, storage.ErrNotFound) {
			return name, nil
		} else if err != nil {
			return "", err
		}
	}
	return "", apierrors.NewInternalError(errors.New("the range is full"))
}

func (a *addresses) begin(ctx context.Context, obj, old codec.Object, dryRun bool) (registry.Transaction, error) {
	a.begun.Add(1)
	var request storage.OpRequest
	switch {
	case obj == nil:
		current, err := a.Get(ctx, key(old.(*corev1.Pod).Status.PodIP), storage.ReadOptions{})
		if err != nil {
			return registry.Transaction{}, err
		}
		request.Current = current
	case old == nil:
		address, err := a.free(ctx)
		if err != nil {
			return registry.Transaction{}, err
		}
		obj.(*corev1.Pod).Status.PodIP = address
		request.Object = pod(address)
	default:
		return registry.Transaction{}, nil
	}
	op, err := a.Prepare(ctx, request)
	if err != nil {
		return registry.Transaction{}, err
	}
	if a.meanwhile != nil {
		a.meanwhile(op.Name().Name)
	}
	a.reserved.Add(1)
	return registry.Transaction{With: []*storage.Op{op}, Rollback: func() { a.reserved.Add(-1) }}, nil
}

// newAddresses returns a registry of pods with addresses.
func newAddresses(t *testing.T, size int) (*env, *addresses) {
	t.Helper()
	a := &addresses{size: size}
	e := newEnv(t, &registry.Strategy{BeginTransaction: a.begin}, nil)
	beside, err := storage.New(storage.Config{
		Backend: e.Storage.(*storage.Store).Backend(), Kind: podKind(), Namespaced: true, ResourcePrefix: "addresses",
	})
	if err != nil {
		t.Fatal(err)
	}
	a.Interface = beside
	return e, a
}

func (a *addresses) count(t *testing.T) int64 {
	t.Helper()
	n, err := a.Count(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestTransactions(t *testing.T) {
	t.Parallel()
	e, a := newAddresses(t, 3)
	record, err := e.Create(e.ctx, pod("a"), func(_ context.Context, obj, _ codec.Object) error {
		if obj.(*corev1.Pod).Status.PodIP == "" {
			t.Error("admission does not see the address")
		}
		return nil
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	address, err := a.Get(e.ctx, key(addressName(0)), storage.ReadOptions{})
	if err != nil || address.Revision() != record.Revision() {
		t.Fatalf("the address: %v, %v", address, err)
	}
	refuse := func(context.Context, codec.Object, codec.Object) error { return errors.New("refused") }
	for name, write := range map[string]func() error{
		"refused by admission": func() error { _, err := e.Create(e.ctx, pod("b"), refuse, metav1.CreateOptions{}); return err },
		"of an existing name": func() error {
			_, err := e.Create(e.ctx, pod("a"), nil, metav1.CreateOptions{})
			return err
		},
		"a dry run": func() error {
			_, err := e.Create(e.ctx, pod("b"), nil, metav1.CreateOptions{DryRun: []string{"All"}})
			if err == nil {
				err = errors.New("the dry run succeeded") // as expected
			}
			return err
		},
	} {
		if write() == nil {
			t.Errorf("%s: the pod was created", name)
		}
		if n, reserved := a.count(t), a.reserved.Load(); n != 1 || reserved != 1 {
			t.Errorf("%s: %d addresses are stored, %d reserved", name, n, reserved)
		}
	}
	if _, _, err := e.Delete(e.ctx, key("a"), nil, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if n := a.count(t); n != 0 {
		t.Errorf("%d addresses are left behind", n)
	}
}

// TestFinalizersAndTransactions checks that the address of a pod is deleted when the last finalizer
// is removed.
func TestFinalizersAndTransactions(t *testing.T) {
	t.Parallel()
	e, a := newAddresses(t, 3)
	if _, err := e.Create(e.ctx, pod("a", finalizers("x.io/y")), nil, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, gone, err := e.Delete(e.ctx, key("a"), nil, metav1.DeleteOptions{}); err != nil || gone || a.count(t) != 1 {
		t.Fatalf("marked: gone %t, %d addresses, %v", gone, a.count(t), err)
	}
	_, _, err := e.Update(e.ctx, key("a"), func(_ context.Context, current codec.Object) (codec.Object, error) {
		obj := current.DeepCopyObject().(codec.Object)
		obj.SetFinalizers(nil)
		return obj, nil
	}, rest.UpdateOptions{})
	if err != nil || a.count(t) != 0 {
		t.Errorf("%d addresses are left behind: %v", a.count(t), err)
	}
}

// TestTransactionsRetry checks that a writer selects the next address if another writer creates the selected
// address first.
func TestTransactionsRetry(t *testing.T) {
	t.Parallel()
	e, a := newAddresses(t, 3)
	var once sync.Once
	a.meanwhile = func(address string) {
		once.Do(func() {
			if _, err := a.Create(e.ctx, pod(address), storage.WriteOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	record, err := e.Create(e.ctx, pod("a"), nil, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	obj, err := record.Shared()
	if err != nil {
		t.Fatal(err)
	}
	if got := obj.(*corev1.Pod).Status.PodIP; got != addressName(1) || a.begun.Load() != 2 || a.reserved.Load() != 1 {
		t.Errorf("the address is %s after %d attempts, %d reserved", got, a.begun.Load(), a.reserved.Load())
	}
	// If all attempts fail, the creation returns an error.
	a.meanwhile = func(address string) {
		if _, err := a.Create(e.ctx, pod(address), storage.WriteOptions{}); err != nil {
			t.Error(err)
		}
		a.size++
	}
	if _, err := e.Create(e.ctx, pod("b"), nil, metav1.CreateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("create b: error %v, want a conflict", err)
	}
	if a.reserved.Load() != 1 {
		t.Errorf("%d addresses are reserved, want 1", a.reserved.Load())
	}
}

// TestManyTransactions checks that concurrent writers never receive the same address.
func TestManyTransactions(t *testing.T) {
	t.Parallel()
	const writers = 12
	e, a := newAddresses(t, writers)
	var all sync.WaitGroup
	given := make([]string, writers)
	for w := range writers {
		all.Go(func() {
			record, err := e.Create(e.ctx, pod(fmt.Sprintf("p-%d", w)), nil, metav1.CreateOptions{})
			if err != nil {
				t.Error(err)
				return
			}
			obj, err := record.Shared()
			if err != nil {
				t.Error(err)
				return
			}
			given[w] = obj.(*corev1.Pod).Status.PodIP
		})
	}
	all.Wait()
	seen := map[string]bool{}
	for _, address := range given {
		if seen[address] {
			t.Errorf("%s was given twice", address)
		}
		seen[address] = true
	}
	if n := a.count(t); n != writers || a.reserved.Load() != writers {
		t.Errorf("%d addresses are stored, %d reserved", n, a.reserved.Load())
	}
}
