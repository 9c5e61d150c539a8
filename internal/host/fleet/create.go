package fleet

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/apis/controlplanes"
)

// Credentials are the credentials of the administrator of a control plane.
type Credentials struct {
	// URL is the URL of the control plane, Token the bearer token, and Kubeconfig contains both.
	URL, Token string
	Kubeconfig []byte
}

// Create creates a control plane, which serves requests with the returned credentials at once.
func (f *Fleet) Create(ctx context.Context, name string) (Credentials, error) {
	created, err := f.objects.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": controlplanes.Resource().GroupVersion().String(), "kind": controlplanes.Kind, "metadata": map[string]any{"name": name},
	}})
	if err != nil {
		return Credentials{}, fmt.Errorf("create the control plane %s: %w", name, err)
	}
	object, err := controlplanes.FromUnstructured(created)
	if err != nil {
		return Credentials{}, err
	}
	if err := f.ensureSecret(ctx, object); err != nil {
		return Credentials{}, fmt.Errorf("create the kubeconfig of the control plane %s: %w", name, err)
	}
	secret, err := f.secrets.Get(ctx, secretOf(name))
	if err != nil {
		return Credentials{}, fmt.Errorf("read the kubeconfig of the control plane %s: %w", name, err)
	}
	// The events of both objects can arrive later.
	f.setToken(object.UID, string(secret.Data[tokenKey]))
	f.update(object)
	return Credentials{URL: f.url(name), Token: string(secret.Data[tokenKey]), Kubeconfig: secret.Data[KubeconfigKey]}, nil
}

// Delete starts the deletion of a control plane.
func (f *Fleet) Delete(ctx context.Context, name string) error {
	return f.objects.Delete(ctx, types.NamespacedName{Name: name}, metav1.DeleteOptions{})
}
