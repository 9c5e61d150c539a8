package fleet

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/apis/controlplanes"
)

// Credentials are the credentials of the administrator of a control plane.
type Credentials struct {
	// URL is the URL of the control plane, Token the bearer token, and Kubeconfig contains both.
	URL, Token string
	Kubeconfig []byte
}

// Create creates a control plane. It serves requests with the returned credentials as soon as Create returns.
// If from is not nil, the control plane is a fork; otherwise it is empty. Create returns an error if the
// object, the content of the fork, or the Secret cannot be created. After an error, the object might exist.
func (f *Fleet) Create(ctx context.Context, name string, from *controlplanes.Source) (Credentials, error) {
	declared, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&controlplanes.ControlPlane{
		TypeMeta:   metav1.TypeMeta{APIVersion: controlplanes.Resource().GroupVersion().String(), Kind: controlplanes.Kind},
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: controlplanes.Spec{From: from},
	})
	if err != nil {
		return Credentials{}, fmt.Errorf("encode the control plane %s: %w", name, err)
	}
	delete(declared, "status")
	created, err := f.objects.Create(ctx, &unstructured.Unstructured{Object: declared})
	if err != nil {
		return Credentials{}, fmt.Errorf("create the control plane %s: %w", name, err)
	}
	object, err := controlplanes.FromUnstructured(created)
	if err != nil {
		return Credentials{}, err
	}
	if from != nil {
		if _, err := f.ensureKeys(ctx, planeKey{name, object.UID}, from); err != nil {
			return Credentials{}, fmt.Errorf("fork the control plane %s: %w", name, err)
		}
	}
	if err := f.ensureSecret(ctx, object); err != nil {
		return Credentials{}, fmt.Errorf("create the kubeconfig of the control plane %s: %w", name, err)
	}
	secret, err := f.secrets.Get(ctx, secretOf(name))
	if err != nil {
		return Credentials{}, fmt.Errorf("read the kubeconfig of the control plane %s: %w", name, err)
	}
	// Do not wait for the watch events of the Secret and of the ControlPlane object.
	f.setToken(object.UID, string(secret.Data[tokenKey]))
	f.update(object)
	return Credentials{URL: f.url(name), Token: string(secret.Data[tokenKey]), Kubeconfig: secret.Data[KubeconfigKey]}, nil
}

// Delete starts the deletion of a control plane. It returns an API error with reason NotFound if the object
// does not exist.
func (f *Fleet) Delete(ctx context.Context, name string) error {
	return f.objects.Delete(ctx, types.NamespacedName{Name: name}, metav1.DeleteOptions{})
}
