// Package accounttokens adds tokens to Secrets of type kubernetes.io/service-account-token, and deletes such
// Secrets when their service account is deleted, like kube-controller-manager's
// serviceaccount-token-controller. These tokens do not expire. Most clients use the TokenRequest API instead.
package accounttokens

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/go-jose/go-jose/v4/jwt"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/controllers"
	"mainstay.dev/mainstay/internal/controllers/changes"
	"mainstay.dev/mainstay/internal/controllers/work"
	"mainstay.dev/mainstay/internal/filters/authn/serviceaccount"
	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
)

const (
	// Name is the name of the controller. account is the name of its service account.
	Name    = "serviceaccount-token-controller"
	account = "tokens-controller"
	workers = 5
)

// Config configures a Controller. All fields except QueueMetrics are required.
type Config struct {
	// Secrets and Accounts read Secrets and ServiceAccounts without a watch cache.
	Secrets, Accounts storage.Interface
	// Sign returns a signed token that contains the claims. It must be safe for concurrent use.
	Sign func(context.Context, *serviceaccount.Claims) (string, error)
	// Bundle returns the CA certificates that verify the server's certificate, as PEM. They are stored in the
	// Secrets along with the tokens.
	Bundle func() []byte
	// Access reads and writes objects. The controller replaces the user of Access with its own service account.
	Access *loopback.Access
	Logger *slog.Logger
	// QueueMetrics records the metrics of the work queue; nil disables them.
	QueueMetrics *work.Metrics
}

// Controller implements serviceaccount-token-controller. It starts no goroutine before Start.
type Controller struct {
	config   Config
	secrets  *loopback.Client[*corev1.Secret]
	accounts *loopback.Client[*corev1.ServiceAccount]
}

// Registration returns the registration of the controller. The controller is disabled if there is no serving
// CA, because the Secrets must contain it.
func Registration() controllers.Registration {
	return controllers.Registration{Name: Name, New: func(d controllers.Dependencies) (controllers.Controller, error) {
		if d.Keys.ServingCA == nil {
			return nil, nil
		}
		config := Config{Sign: d.Keys.SignToken, Bundle: d.Keys.ServingCA, Access: d.Access, Logger: d.Logger, QueueMetrics: d.QueueMetrics}
		var err error
		if config.Secrets, err = d.OpenStorage(corev1.Resource("secrets")); err != nil {
			return nil, err
		}
		if config.Accounts, err = d.OpenStorage(corev1.Resource("serviceaccounts")); err != nil {
			return nil, err
		}
		return New(config), nil
	}}
}

// New creates the controller without starting it.
func New(config Config) *Controller {
	access := config.Access.AsController(account)
	return &Controller{
		config:   config,
		secrets:  loopback.For[*corev1.Secret](access, corev1.SchemeGroupVersion.WithResource("secrets")),
		accounts: loopback.For[*corev1.ServiceAccount](access, corev1.SchemeGroupVersion.WithResource("serviceaccounts")),
	}
}

// key identifies a Secret, or a deleted service account.
type key struct {
	name      types.NamespacedName
	isAccount bool
}

// Start implements controllers.Controller.
func (c *Controller) Start(ctx context.Context) (changes.Subscriber, func()) {
	queue := work.New(ctx, work.Config[key]{Name: Name, Workers: workers, Sync: c.sync, Logger: c.config.Logger, Metrics: c.config.QueueMetrics})
	return &subscriber{queue}, queue.Close
}

// subscriber enqueues Secrets that may contain tokens, and deleted service accounts.
type subscriber struct{ queue *work.Queue[key] }

// Reset implements changes.Subscriber.
func (*subscriber) Reset() {}

// Synced implements changes.Subscriber.
func (*subscriber) Synced() {}

// Changed implements changes.Subscriber.
func (s *subscriber) Changed(c *changes.Change) {
	name := types.NamespacedName{Namespace: c.Namespace, Name: c.Name}
	switch {
	case c.Path == "secrets" && (mayBeToken(c.Value) || c.Value == nil && mayBeToken(c.Prev)):
		s.queue.Add(key{name: name})
	case c.Path == "serviceaccounts" && c.Value == nil:
		s.queue.Add(key{name: name, isAccount: true})
	}
}

// mayBeToken reports whether a stored Secret contains the name of the token Secret type. It does not decode the
// Secret, so it may also return true for other Secrets.
func mayBeToken(value []byte) bool {
	return bytes.Contains(value, []byte(corev1.SecretTypeServiceAccountToken))
}

func (c *Controller) sync(ctx context.Context, k key) error {
	if k.isAccount {
		return c.deleteTokens(ctx, k.name)
	}
	secret, err := storage.FindAs[*corev1.Secret](ctx, c.config.Secrets, k.name)
	switch {
	case err != nil:
		return err
	case secret == nil:
		return c.removeReferences(ctx, k.name)
	case secret.Type != corev1.SecretTypeServiceAccountToken || secret.DeletionTimestamp != nil || secret.Annotations[corev1.ServiceAccountNameKey] == "":
		return nil
	}
	sa, err := c.findAccount(ctx, secret)
	if err != nil {
		return err
	}
	if sa == nil {
		return c.delete(ctx, secret)
	}
	return c.fill(ctx, secret, sa)
}

// findAccount returns the service account of a token Secret. It returns nil if the account was deleted, or was
// replaced by another one with the same name.
func (c *Controller) findAccount(ctx context.Context, secret *corev1.Secret) (*corev1.ServiceAccount, error) {
	sa, err := storage.FindAs[*corev1.ServiceAccount](ctx, c.config.Accounts, types.NamespacedName{Namespace: secret.Namespace, Name: secret.Annotations[corev1.ServiceAccountNameKey]})
	if err != nil || sa == nil {
		return nil, err
	}
	if uid := secret.Annotations[corev1.ServiceAccountUIDKey]; uid != "" && uid != string(sa.UID) {
		return nil, nil
	}
	return sa, nil
}

func (c *Controller) delete(ctx context.Context, secret *corev1.Secret) error {
	name := types.NamespacedName{Namespace: secret.Namespace, Name: secret.Name}
	err := c.secrets.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &secret.UID}})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete the token %s of a deleted service account: %w", name, err)
	}
	return nil
}

// errReplaced is returned if another object with the same name has replaced the object. The queue retries the
// key.
var errReplaced = errors.New("another object has the same name")

// fill adds the missing data to a Secret. It does not verify a token that the Secret already contains.
func (c *Controller) fill(ctx context.Context, secret *corev1.Secret, sa *corev1.ServiceAccount) error {
	if isComplete(secret, c.config.Bundle()) {
		return nil
	}
	name := types.NamespacedName{Namespace: secret.Namespace, Name: secret.Name}
	_, err := c.secrets.Update(ctx, name, func(current *corev1.Secret) error {
		if current.UID != secret.UID {
			return errReplaced
		}
		data := map[string][]byte{corev1.ServiceAccountRootCAKey: c.config.Bundle()}
		if len(current.Data[corev1.ServiceAccountNamespaceKey]) == 0 {
			data[corev1.ServiceAccountNamespaceKey] = []byte(current.Namespace)
		}
		if len(current.Data[corev1.ServiceAccountTokenKey]) == 0 {
			token, err := c.config.Sign(ctx, claims(current, sa))
			if err != nil {
				return err
			}
			data[corev1.ServiceAccountTokenKey] = []byte(token)
		}
		if current.Data == nil {
			current.Data = map[string][]byte{}
		}
		for key, value := range data {
			current.Data[key] = value
		}
		metav1.SetMetaDataAnnotation(&current.ObjectMeta, corev1.ServiceAccountUIDKey, string(sa.UID))
		return nil
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("fill in the token %s: %w", name, err)
	}
	return nil
}

func isComplete(secret *corev1.Secret, bundle []byte) bool {
	return len(secret.Data[corev1.ServiceAccountTokenKey]) > 0 && len(secret.Data[corev1.ServiceAccountNamespaceKey]) > 0 &&
		bytes.Equal(secret.Data[corev1.ServiceAccountRootCAKey], bundle)
}

// claims returns the claims for the token in a Secret.
func claims(secret *corev1.Secret, sa *corev1.ServiceAccount) *serviceaccount.Claims {
	return &serviceaccount.Claims{
		Claims: jwt.Claims{Issuer: serviceaccount.LegacyIssuer, Subject: request.ServiceAccountUser(sa.Namespace, sa.Name)},
		Legacy: serviceaccount.Legacy{Namespace: sa.Namespace, Secret: secret.Name, Name: sa.Name, UID: string(sa.UID)},
	}
}

// deleteTokens deletes the token Secrets of a deleted service account.
func (c *Controller) deleteTokens(ctx context.Context, name types.NamespacedName) error {
	list, err := c.config.Secrets.List(ctx, name.Namespace, rest.ListOptions{})
	if err != nil {
		return err
	}
	for record, err := range list.Items {
		if err != nil {
			return err
		}
		if !mayBeToken(record.Stored()) {
			continue
		}
		secret, err := codec.SharedAs[*corev1.Secret](record)
		if err != nil {
			return err
		}
		if secret.Type != corev1.SecretTypeServiceAccountToken || secret.Annotations[corev1.ServiceAccountNameKey] != name.Name {
			continue
		}
		sa, err := c.findAccount(ctx, secret)
		if err == nil && sa == nil {
			err = c.delete(ctx, secret)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// removeReferences removes a deleted Secret from the secrets field of all service accounts in the Secret's
// namespace.
func (c *Controller) removeReferences(ctx context.Context, name types.NamespacedName) error {
	list, err := c.config.Accounts.List(ctx, name.Namespace, rest.ListOptions{})
	if err != nil {
		return err
	}
	hasName := func(r corev1.ObjectReference) bool { return r.Name == name.Name }
	for record, err := range list.Items {
		if err != nil {
			return err
		}
		sa, err := codec.SharedAs[*corev1.ServiceAccount](record)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(sa.Secrets, hasName) {
			continue
		}
		_, err = c.accounts.Update(ctx, record.Name(), func(current *corev1.ServiceAccount) error {
			current.Secrets = slices.DeleteFunc(slices.Clone(current.Secrets), hasName)
			return nil
		})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("remove the secret %s from the list of the service account %s: %w", name.Name, record.Name(), err)
		}
	}
	return nil
}
