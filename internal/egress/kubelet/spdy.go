package kubelet

import (
	"context"
	"fmt"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"mainstay.dev/mainstay/internal/egress/proxy"
	"mainstay.dev/mainstay/internal/telemetry/tracing"
)

// Headers and protocols of SPDY upgrades.
const (
	spdyProtocol          = "SPDY/3.1"
	streamProtocolHeader  = "X-Stream-Protocol-Version"
	commandStreamProtocol = "v4.channel.k8s.io"
)

// dialSPDY requests a SPDY connection from a kubelet, with one of the protocols. If the kubelet
// does not respond with status 101, dialSPDY returns the response, a nil connection and a nil
// error; the caller must close the body of the response.
func (c *Client) dialSPDY(ctx context.Context, s *Stream, protocols ...string) (*http.Response, io.ReadWriteCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.Kubelet.url(s.Path, s.Query).String(), nil)
	if err != nil {
		return nil, nil, fmt.Errorf("create the request to a kubelet: %w", err)
	}
	request.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {spdyProtocol}, streamProtocolHeader: protocols}
	tracing.Inject(ctx, request.Header)
	response, err := c.transports().kubelets.upgrading.RoundTrip(request)
	if err != nil {
		return nil, nil, fmt.Errorf("error dialing backend: %w", err)
	}
	if response.StatusCode != http.StatusSwitchingProtocols {
		return response, nil, nil
	}
	upgraded, ok := response.Body.(io.ReadWriteCloser)
	if !ok {
		_ = response.Body.Close()
		return nil, nil, fmt.Errorf("the kubelet's connection is a %T, which cannot be written to", response.Body)
	}
	return response, upgraded, nil
}

// upgradeError returns the error for a response that did not upgrade the connection. Its message is
// client-go's.
func upgradeError(response *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(response.Body, maxErrorText))
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("unable to upgrade connection: unable to read error from server response"))
	}
	if proxy.IsRedirect(response) {
		return apierrors.NewInternalError(errRedirect)
	}
	return apierrors.NewInternalError(fmt.Errorf("unable to upgrade connection: %s", text))
}
