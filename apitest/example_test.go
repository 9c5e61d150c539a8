package apitest_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"mainstay.dev/mainstay/apitest"
)

// inTest runs f with a testing.TB, because examples do not have one.
func inTest(f func(t testing.TB)) {
	testing.Benchmark(func(b *testing.B) {
		if b.N == 1 {
			f(b)
		}
	})
}

func ExampleStart() {
	inTest(func(t testing.TB) {
		server := apitest.Start(t)
		client := kubernetes.NewForConfigOrDie(server.Config())
		namespace, err := client.CoreV1().Namespaces().Get(t.Context(), "default", metav1.GetOptions{})
		fmt.Println(namespace.Name, namespace.Status.Phase, err)
	})
	// Output: default Active <nil>
}

func ExampleServer_As() {
	inTest(func(t testing.TB) {
		server := apitest.Start(t)
		jane := kubernetes.NewForConfigOrDie(server.As("jane", "developers"))
		_, err := jane.CoreV1().Secrets("default").List(context.Background(), metav1.ListOptions{})
		fmt.Println(err)
	})
	// Output: secrets is forbidden: User "jane" cannot list resource "secrets" in API group "" in the namespace "default"
}

func ExampleServer_Inject() {
	inTest(func(t testing.TB) {
		server := apitest.Start(t)
		client := kubernetes.NewForConfigOrDie(server.Config())
		server.Inject(apitest.Fault{Verb: "create", Resource: "configmaps", Status: 500, Count: 1})
		for range 2 {
			_, err := client.CoreV1().ConfigMaps("default").Create(t.Context(),
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}}, metav1.CreateOptions{})
			fmt.Println(err == nil, apierrors.IsInternalError(err))
		}
	})
	// Output:
	// false true
	// true false
}
