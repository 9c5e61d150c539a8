package console

import (
	"testing"

	"mainstay.dev/mainstay/test/testserver"
)

func TestTour(t *testing.T) {
	browser := newBrowser(t)
	s := testserver.New(t, testserver.Options{})
	c := startConsole(t, s.Kubeconfig())
	p := openPage(t, browser, c, "/console/")
	p.await("Overview", "Changes of the last hour")
	p.screenshot("overview")
}
