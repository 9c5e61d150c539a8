package fleet

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"mainstay.dev/mainstay/internal/apis/controlplanes"
	"mainstay.dev/mainstay/internal/egress/kubeconfig"
	"mainstay.dev/mainstay/internal/request"
)

// The Secret with the kubeconfig of the administrator of a control plane.
const (
	secretNamespace = metav1.NamespaceSystem
	secretSuffix    = "-kubeconfig"
	// SecretType is the type of the Secret.
	SecretType = corev1.SecretType("mainstay.dev/kubeconfig")
	// KubeconfigKey is the data key of the kubeconfig. tokenKey is the data key of the token that the
	// kubeconfig contains.
	KubeconfigKey = "kubeconfig"
	tokenKey      = "token"
)

// administratorName is the name of the user as whom the kubeconfig authenticates.
const administratorName = "kubernetes-admin"

// administratorGroups returns the groups of administrators of a control plane.
func administratorGroups() []string {
	return []string{request.GroupMasters, request.GroupAuthenticated}
}

// tokenHash is the SHA-256 of a token. Comparing hashes keeps the duration independent of the token.
type tokenHash [sha256.Size]byte

func hashToken(token string) tokenHash { return sha256.Sum256([]byte(token)) }

func secretOf(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: secretNamespace, Name: name + secretSuffix}
}

// ownerOf returns the UID of the control plane that owns a Secret, or false if no control plane owns it.
func ownerOf(secret *corev1.Secret) (types.UID, bool) {
	for _, owner := range secret.OwnerReferences {
		if owner.Kind == controlplanes.Kind && owner.APIVersion == controlplanes.Resource().GroupVersion().String() {
			return owner.UID, true
		}
	}
	return "", false
}

// ensureSecret creates the Secret of a control plane if it does not exist. It replaces the Secret of a deleted
// control plane with the same name, and returns a *conflictError if the fleet did not create the Secret.
func (f *Fleet) ensureSecret(ctx context.Context, object *controlplanes.ControlPlane) error {
	name := secretOf(object.Name)
	existing, err := f.secrets.Get(ctx, name)
	switch {
	case apierrors.IsNotFound(err):
		return f.createSecret(ctx, object)
	case err != nil:
		return err
	}
	owner, ok := ownerOf(existing)
	switch {
	case !ok || existing.Type != SecretType:
		return &conflictError{fmt.Sprintf("the Secret %s exists and does not belong to this control plane; delete or rename it", name)}
	case owner == object.UID:
		return f.updateSecret(ctx, object, existing)
	}
	old := metav1.Preconditions{UID: &existing.UID}
	if err := f.secrets.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &old}); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return f.createSecret(ctx, object)
}

// kubeconfig returns the kubeconfig of the administrator of a control plane.
func (f *Fleet) kubeconfig(name, token string) []byte {
	entry := kubeconfig.Entry{Server: f.url(name), User: administratorName, Token: token}
	if ca := f.config.Env.Identity.ServingCA; ca != nil {
		entry.CA = ca()
	}
	return entry.Text()
}

// updateSecret updates the kubeconfig in a Secret if the address or the certificate of the server has
// changed, except if several servers share a store, because their addresses may differ and all of them are
// valid. It also restores the token and the kubeconfig if a client has removed one of them.
func (f *Fleet) updateSecret(ctx context.Context, object *controlplanes.ControlPlane, existing *corev1.Secret) error {
	token, text := existing.Data[tokenKey], existing.Data[KubeconfigKey]
	if len(token) > 0 && len(text) > 0 && (f.config.Env.Storage.Shared || bytes.Equal(text, f.kubeconfig(object.Name, string(token)))) {
		return nil
	}
	_, err := f.secrets.Update(ctx, secretOf(object.Name), func(secret *corev1.Secret) error {
		token := string(secret.Data[tokenKey])
		if token == "" {
			token = rand.Text()
		}
		if secret.Data == nil {
			secret.Data = map[string][]byte{}
		}
		secret.Data[tokenKey], secret.Data[KubeconfigKey] = []byte(token), f.kubeconfig(object.Name, token)
		return nil
	})
	return err
}

func (f *Fleet) createSecret(ctx context.Context, object *controlplanes.ControlPlane) error {
	name, token := secretOf(object.Name), rand.Text()
	_, err := f.secrets.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: name.Namespace, Name: name.Name,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: controlplanes.Resource().GroupVersion().String(), Kind: controlplanes.Kind, Name: object.Name, UID: object.UID,
				Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
			}},
		},
		Type: SecretType,
		Data: map[string][]byte{KubeconfigKey: f.kubeconfig(object.Name, token), tokenKey: []byte(token)},
	})
	switch {
	case apierrors.IsAlreadyExists(err):
		return nil // another server has created it
	case err != nil:
		return err
	}
	f.setToken(object.UID, token)
	return nil
}

// setToken makes the token of an administrator valid before the event of its Secret arrives. If the Secret is
// deleted in the meantime, the token in the next Secret replaces this token.
func (f *Fleet) setToken(uid types.UID, token string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.hashes[cloneUID(uid)] = hashToken(token)
}

// conflictError reports a state that an administrator must correct.
type conflictError struct{ message string }

func (e *conflictError) Error() string { return e.message }
