package controlplane

import (
	"mainstay.dev/mainstay/internal/apis/bootstrap"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/telemetry"
)

// serverIdentity returns the identity of this server in its lease; nil if it has none.
func (i *instance) serverIdentity() *bootstrap.Identity {
	if !i.rows.Gates.Enabled(feature.APIServerIdentity) {
		return nil
	}
	return &bootstrap.Identity{ID: telemetry.ServerID(i.env.Hostname), Hostname: i.env.Hostname, PeerAddress: i.peerAddress()}
}
