package all_test

import (
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/all"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/storagetest"
)

// TestDeclared checks that servers can share declarations, and that each server opens a resource once, on
// first use.
func TestDeclared(t *testing.T) {
	t.Parallel()
	declared := builtin.Declare(&builtin.Env{Gates: feature.Defaults()}, all.Groups())
	open := storagetest.Opener(storagetest.InMemory(t))
	for range 2 {
		var opens atomic.Int32
		env := &builtin.Env{Gates: feature.Defaults(), Storage: builtin.StorageEnv{Open: func(spec storage.Spec) (storage.Interface, error) {
			opens.Add(1)
			return open(spec)
		}}}
		resources := declared.Open(env)
		if resources.Opened(corev1.Resource("pods")) != nil {
			t.Error("a resource is open before it is used")
		}
		pods := env.Store(corev1.Resource("pods"))
		if pods == nil || pods != env.Store(corev1.Resource("pods")) || pods != resources.Opened(corev1.Resource("pods")) || opens.Load() != 1 {
			t.Errorf("the store of pods was opened %d times", opens.Load())
		}
		var group sync.WaitGroup
		for _, d := range declared.Resources() {
			group.Go(func() { checkOpened(t, d, resources.Get(d)) })
		}
		group.Wait()
		for _, spec := range env.Specs() { // Specs includes resources that the API does not serve
			env.Store(spec.Resource)
		}
		if got, want := int(opens.Load()), len(env.Specs()); got != want {
			t.Errorf("%d resources were opened, want %d", got, want)
		}
	}
}

// checkOpened compares a resource with its declaration.
func checkOpened(t *testing.T, declared, opened *rest.Resource) {
	t.Helper()
	if opened == declared || opened.GVR() != declared.GVR() || opened.FullName() != declared.FullName() || opened.Kind != declared.Kind {
		t.Errorf("%v %s was opened for %v %s", opened.GVR(), opened.FullName(), declared.GVR(), declared.FullName())
	}
}
