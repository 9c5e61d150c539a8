package controlplane

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/rest"
)

// systemNamespaces exist from the start.
var systemNamespaces = [...]string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease}

// bootstrap creates what every cluster has. It changes nothing that is there.
func (i *instance) bootstrap(ctx context.Context) error {
	storage := i.catalog.Find(corev1.SchemeGroupVersion, "namespaces", "").Storage
	getter, gets := storage.(rest.Getter)
	creater, creates := storage.(rest.Creater)
	if !gets || !creates {
		return errors.New("namespaces cannot be created")
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, name := range systemNamespaces {
		group.Go(func() error {
			_, err := getter.Get(ctx, types.NamespacedName{Name: name}, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				_, err = creater.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, nil, metav1.CreateOptions{})
			}
			if err != nil && !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("create namespace %s: %w", name, err)
			}
			return nil
		})
	}
	group.Go(func() error { return i.aggregated.Register(ctx) })
	group.Go(func() error { return i.clusterAuth.follower.Load(ctx) })
	return group.Wait()
}
