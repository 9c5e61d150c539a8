package e2e

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// newNamespace creates a namespace for one test and returns its name. It waits until controllers have created
// their objects in the namespace, so that watches of the test do not receive these objects.
func newNamespace(t *testing.T, client kubernetes.Interface) string {
	t.Helper()
	ns, err := client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create a namespace: %v", err)
	}
	awaitNamespaceObjects(t, client, ns.Name)
	return ns.Name
}

// awaitNamespaceObjects waits until the controllers have created their objects in a namespace.
func awaitNamespaceObjects(t *testing.T, client kubernetes.Interface, namespace string) {
	t.Helper()
	eventually(t, func() error {
		if _, err := client.CoreV1().ServiceAccounts(namespace).Get(t.Context(), "default", metav1.GetOptions{}); err != nil {
			return err
		}
		_, err := client.CoreV1().ConfigMaps(namespace).Get(t.Context(), "kube-root-ca.crt", metav1.GetOptions{})
		return err
	})
}
