package host

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/etcd"
)

// etcdTimeout is how long a server that starts waits for etcd.
const etcdTimeout = 20 * time.Second

// etcdConfig returns the configuration of the etcd backend.
func (c Config) etcdConfig() etcd.Config {
	return etcd.Config{
		Endpoints:          c.EtcdServers,
		CAFile:             c.EtcdTLS.CAFile,
		CertFile:           c.EtcdTLS.CertFile,
		KeyFile:            c.EtcdTLS.KeyFile,
		HealthPrefix:       c.EtcdPrefix,
		CompactionInterval: c.EtcdCompactionInterval,
		LeaseReuse:         c.EtcdLeaseReuse,
		SizeInterval:       c.EtcdSizeInterval,
		NoRangeStream:      !c.Gates().Enabled(feature.EtcdRangeStream),
	}
}

func (c Config) checkEtcd() error {
	if len(c.EtcdServers) == 0 {
		if c.EtcdTLS != (EtcdTLSConfig{}) || len(c.EtcdServersOverrides) > 0 {
			return errors.New("--etcd-cafile, --etcd-certfile, --etcd-keyfile and --etcd-servers-overrides need --etcd-servers")
		}
		return nil
	}
	_, err := parseOverrides(c.EtcdServersOverrides)
	if problem := c.etcdConfig().Check(); problem != nil {
		err = errors.Join(fmt.Errorf("--etcd-servers: %w", problem), err)
	}
	return err
}

// openEtcd opens the etcd backends, and waits until they answer. It returns the
// error of ctx if that ends the wait.
func (h *Host) openEtcd(ctx context.Context) error {
	store, err := h.openCluster(ctx, h.config.etcdConfig())
	if err != nil {
		return err
	}
	h.backend = store
	if err := store.CheckComplete(ctx, h.config.EtcdPrefix); err != nil {
		return fmt.Errorf("use etcd at %s: %w", strings.Join(h.config.EtcdServers, ","), err)
	}
	return h.openOverrides(ctx)
}

func (h *Host) openCluster(ctx context.Context, config etcd.Config) (*etcd.Store, error) {
	config.Logger, config.Registerer, config.Dial = h.logger, h.registry, h.egress.Etcd
	where := strings.Join(config.Endpoints, ",")
	store, err := etcd.Open(config)
	if err != nil {
		return nil, fmt.Errorf("use etcd at %s: %w", where, err)
	}
	waitCtx, cancel := context.WithTimeout(ctx, etcdTimeout)
	defer cancel()
	err = store.Await(waitCtx)
	if err != nil && ctx.Err() != nil {
		return nil, errors.Join(ctx.Err(), store.Close())
	}
	if errors.Is(err, kv.ErrUnavailable) {
		err = fmt.Errorf("no answer for %s: %w", etcdTimeout, err)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("use etcd at %s: %w", where, err), store.Close())
	}
	return store, nil
}
