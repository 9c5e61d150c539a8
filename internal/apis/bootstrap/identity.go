package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/simulation"
	"mainstay.dev/mainstay/internal/storage"
)

const (
	// identityDuration is the time for which a renewal extends an identity lease. It is also the interval at
	// which expired leases are deleted. kube-apiserver uses the same values.
	identityDuration = time.Hour
	// identityLabel marks a lease as the identity lease of a server. Its value is the type of the server.
	identityLabel = "apiserver.kubernetes.io/identity"
	identityKind  = "kube-apiserver"
)

// IdentitySelector selects the identity leases of the servers of a cluster, which are in the
// namespace kube-system.
func IdentitySelector() labels.Selector {
	return labels.SelectorFromSet(labels.Set{identityLabel: identityKind})
}

// Identity is the content of a server's identity lease.
type Identity struct {
	// ID is the name of the lease.
	ID string
	// Hostname is the host name of the machine.
	Hostname string
	// PeerAddress is the address at which other servers reach this server, in the form HOST:PORT. If it is "",
	// other servers do not connect to this server.
	PeerAddress string
}

// identity maintains the identity lease of this server, and deletes expired leases of all servers.
//
// If servers share a store, the lease is renewed in every round and deleted on shutdown, as in
// kube-apiserver. A server with its own store renews its lease only when necessary, and does not
// delete it, so that neither an idle server nor a restart writes anything.
type identity struct {
	config *Config
	leases *loopback.Client[*coordinationv1.Lease]
	holder string
	mu     struct {
		sync.Mutex
		withdrawn          bool
		renewed, collected time.Time // zero before the first renewal and collection
	}
}

func newIdentity(config *Config) *identity {
	return &identity{
		config: config, holder: config.Identity.ID + "_" + string(uuid.NewUUID()),
		leases: loopback.For[*coordinationv1.Lease](config.Access.As(nil, serverManager), coordinationv1.SchemeGroupVersion.WithResource("leases")),
	}
}

func identityKey(id string) types.NamespacedName {
	return types.NamespacedName{Namespace: metav1.NamespaceSystem, Name: id}
}

// keep renews the leases of this server and deletes expired identity leases, if necessary.
func (i *identity) keep(ctx context.Context) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.mu.withdrawn {
		return nil
	}
	var errs []error
	if i.config.PeerLeases != nil && i.config.Identity.PeerAddress != "" { // written first: other servers look up the peer lease when the identity lease appears
		errs = append(errs, renewLease(ctx, i.config.PeerLeases, i.config.Identity.ID, i.config.Identity.describePeer))
	}
	if !i.validLocked(ctx) {
		errs = append(errs, i.renewLocked(ctx))
	}
	if simulation.Now(ctx).Sub(i.mu.collected) >= identityDuration {
		errs = append(errs, i.collectLocked(ctx))
	}
	return errors.Join(errs...)
}

// alone reports whether only this server uses the store.
func (i *identity) alone() bool { return i.config.Revision != nil }

// validLocked reports whether the lease need not be renewed now. If servers share a store, it returns false.
func (i *identity) validLocked(ctx context.Context) bool {
	// Users may have deleted or changed the lease, so its expiry is read from the store.
	return i.alone() && simulation.From(ctx).Until(i.storedExpiry(ctx)) > identityDuration/2
}

// storedExpiry returns the expiration time of the stored lease, or the zero time if the lease does not exist or
// cannot be read.
func (i *identity) storedExpiry(ctx context.Context) time.Time {
	stored, err := i.config.Stored(coordinationv1.Resource("leases"))
	if err != nil {
		return time.Time{}
	}
	record, err := stored.Get(ctx, identityKey(i.config.Identity.ID), storage.ReadOptions{})
	if err != nil {
		return time.Time{}
	}
	lease, err := codec.SharedAs[*coordinationv1.Lease](record)
	if err != nil {
		return time.Time{}
	}
	return expiry(lease)
}

// renewLocked writes the lease. On the first call, it deletes an existing lease, because an earlier process
// created it.
func (i *identity) renewLocked(ctx context.Context) error {
	if i.mu.renewed.IsZero() {
		if err := i.delete(ctx, i.config.Identity.ID, metav1.DeleteOptions{}); err != nil {
			return fmt.Errorf("replace the identity lease: %w", err)
		}
	}
	_, err := i.leases.Update(ctx, identityKey(i.config.Identity.ID), func(lease *coordinationv1.Lease) error {
		i.describe(ctx, lease)
		return nil
	})
	if apierrors.IsNotFound(err) {
		lease := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &i.holder}}
		lease.Namespace, lease.Name = metav1.NamespaceSystem, i.config.Identity.ID
		i.describe(ctx, lease)
		_, err = i.leases.Create(ctx, lease)
	}
	if err != nil {
		return fmt.Errorf("renew the identity lease: %w", err)
	}
	i.mu.renewed = simulation.Now(ctx)
	return nil
}

// describe sets all fields except the holder. The holder is the process that created the lease.
func (i *identity) describe(ctx context.Context, lease *coordinationv1.Lease) {
	now := metav1.NewMicroTime(simulation.Now(ctx))
	lease.Spec.LeaseDurationSeconds, lease.Spec.RenewTime = new(int32(identityDuration/time.Second)), &now
	metav1.SetMetaDataLabel(&lease.ObjectMeta, identityLabel, identityKind)
	if hostname := i.config.Identity.Hostname; len(validation.IsValidLabelValue(hostname)) == 0 {
		metav1.SetMetaDataLabel(&lease.ObjectMeta, corev1.LabelHostname, hostname)
	}
	if address := i.config.Identity.PeerAddress; address != "" {
		metav1.SetMetaDataAnnotation(&lease.ObjectMeta, corev1.AnnotationPeerAdvertiseAddress, address)
	}
}

// collectLocked deletes expired leases.
func (i *identity) collectLocked(ctx context.Context) error {
	stored, err := i.config.Stored(coordinationv1.Resource("leases"))
	if err != nil {
		return err
	}
	list, err := stored.List(ctx, metav1.NamespaceSystem, rest.ListOptions{Labels: IdentitySelector()})
	if err != nil {
		return fmt.Errorf("list identity leases: %w", err)
	}
	for record, err := range list.Items {
		if err != nil {
			return fmt.Errorf("list identity leases: %w", err)
		}
		lease, err := codec.SharedAs[*coordinationv1.Lease](record)
		if err != nil {
			return err
		}
		if simulation.Now(ctx).Before(expiry(lease)) {
			continue
		}
		asItWas := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &lease.UID, ResourceVersion: new(strconv.FormatInt(record.Revision(), 10))}}
		if err := i.delete(ctx, lease.Name, asItWas); err != nil && !apierrors.IsConflict(err) {
			return fmt.Errorf("delete an expired identity lease: %w", err)
		}
	}
	i.mu.collected = simulation.Now(ctx)
	return nil
}

// expiry returns the expiration time of a lease, or the zero time if the renewal time or the duration is
// missing.
func expiry(lease *coordinationv1.Lease) time.Time {
	if lease.Spec.RenewTime == nil || lease.Spec.LeaseDurationSeconds == nil {
		return time.Time{}
	}
	return lease.Spec.RenewTime.Add(time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second)
}

// withdraw deletes the leases of this server before the server stops, unless only this server uses the store.
func (i *identity) withdraw(ctx context.Context) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.mu.withdrawn = true
	if i.mu.renewed.IsZero() || i.alone() {
		return nil
	}
	if i.config.PeerLeases != nil {
		_, _ = i.config.PeerLeases.Delete(ctx, types.NamespacedName{Name: i.config.Identity.ID}, nil, storage.UpdateOptions{}) // if this fails, the lease expires soon
	}
	if err := i.delete(ctx, i.config.Identity.ID, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("withdraw the identity lease: %w", err)
	}
	return nil
}

// peerIdentityLabel is the label of a peer lease whose value is the ID of the server.
const peerIdentityLabel = "apiserverIdentity"

// describePeer sets the content of the peer lease of this server, as in kube-apiserver.
func (id *Identity) describePeer(lease *corev1.Endpoints) {
	host, portText, _ := net.SplitHostPort(id.PeerAddress)
	port, _ := strconv.ParseInt(portText, 10, 32)
	lease.Labels = map[string]string{peerIdentityLabel: id.ID}
	lease.Subsets = []corev1.EndpointSubset{{
		Addresses: []corev1.EndpointAddress{{IP: host}}, Ports: []corev1.EndpointPort{{Name: servicePortName, Protocol: corev1.ProtocolTCP, Port: int32(port)}},
	}}
}

// delete deletes a lease. It returns nil if the lease does not exist.
func (i *identity) delete(ctx context.Context, name string, options metav1.DeleteOptions) error {
	err := i.leases.Delete(ctx, identityKey(name), options)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
