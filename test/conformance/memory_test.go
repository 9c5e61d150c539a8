package conformance

import (
	"strings"
	"testing"
)

const (
	recordedUID = "11111111-1111-4111-8111-111111111111"
	liveUID     = "22222222-2222-4222-8222-222222222222"
	otherUID    = "33333333-3333-4333-8333-333333333333"
)

func TestSameText(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name      string
		sent      string // by the client, before
		want, got string
		same      bool
	}{
		{"equal", "", "a", "a", true},
		{"different", "", "a", "b", false},
		{"uids pair up", "", recordedUID, liveUID, true},
		{"uids inside a message", "", "uid " + recordedUID + " is gone", "uid " + liveUID + " is gone", true},
		{"a uid is no word", "", recordedUID, "a", false},
		{"one uid cannot stand for two", "", recordedUID + " " + otherUID, liveUID + " " + liveUID, false},
		{"a uid that the client chose", `{"uid":"` + recordedUID + `"}`, recordedUID, liveUID, false},
		{"times", "", "2026-11-20T19:26:29Z", "2027-01-02T03:04:05Z", true},
		{"times of another precision", "", "2026-11-20T19:26:29Z", "2027-01-02T03:04:05.000000Z", false},
		{"a time that the client chose", `{"at":"2026-11-20T19:26:29Z"}`, "2026-11-20T19:26:29Z", "2027-01-02T03:04:05Z", false},
		{"too old a revision", "", "too old resource version: 207 (245)", "too old resource version: 9 (12)", true},
		{"another number", "", "want 207", "want 9", false},
		{"cluster IPs", "", "10.96.0.7", "10.100.3.4", true},
		{"a cluster IP that the client chose", `"10.96.0.7"`, "10.96.0.7", "10.100.3.4", false},
		{"the recorded machine", "", "https://{hostaddress}:{port}/x", "https://127.0.0.1:6443/x", true},
		{"token volumes", "", "kube-api-access-abcde", "kube-api-access-vwxyz", true},
		{"certificates", "", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "-----BEGIN CERTIFICATE-----\nBBBB\n-----END CERTIFICATE-----\n", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := NewMemory()
			m.Sent(tt.sent)
			if got := m.SameText(tt.want, tt.got); got != tt.same {
				t.Errorf("SameText(%q, %q): got %t, want %t", tt.want, tt.got, got, tt.same)
			}
		})
	}
}

func TestPairsHold(t *testing.T) {
	t.Parallel()
	m := NewMemory()
	for _, tt := range []struct {
		recorded, live string
		want           bool
	}{
		{recordedUID, liveUID, true},
		{recordedUID, liveUID, true},
		{recordedUID, otherUID, false},
		{otherUID, liveUID, false},
		{otherUID, recordedUID, true},
	} {
		if got := m.Pair(tt.recorded, tt.live); got != tt.want {
			t.Errorf("Pair(%s, %s): got %t, want %t", tt.recorded, tt.live, got, tt.want)
		}
	}
}

func TestRewrite(t *testing.T) {
	t.Parallel()
	m := NewMemory()
	m.Pair(recordedUID, liveUID)
	m.PairName("made-abcde", "made-vwxyz")
	m.PairRevision("207", "9")
	m.LearnListRevision("245", "12")
	m.Learn("dG9rZW4", "bGl2ZQ")
	m.Learn("31000", "32000")
	paths := map[string]string{
		"/api/v1/things/made-abcde":                        "/api/v1/things/made-vwxyz",
		"/things?watch=1&resourceVersion=207":              "/things?watch=1&resourceVersion=9",
		"/things?resourceVersion=245&limit=2":              "/things?resourceVersion=12&limit=2",
		"/things?resourceVersion=99999999":                 "/things?resourceVersion=99999999",
		"/things?limit=1&continue=dG9rZW4":                 "/things?limit=1&continue=bGl2ZQ",
		"/things?fieldSelector=metadata.name%3Dmade-abcde": "/things?fieldSelector=metadata.name%3Dmade-vwxyz",
		"/things//x/..?a=%2F":                              "/things//x/..?a=%2F",
	}
	for path, want := range paths {
		if got := m.RewritePath(path); got != want {
			t.Errorf("path %s: got %s, want %s", path, got, want)
		}
	}
	bodies := map[string]string{
		`{"metadata":{"uid":"` + recordedUID + `","resourceVersion":"207"}}`: `{"metadata":{"uid":"` + liveUID + `","resourceVersion":"9"}}`,
		`[{"op":"test","path":"/metadata/resourceVersion","value":"245"}]`:   `[{"op":"test","path":"/metadata/resourceVersion","value":"12"}]`,
		`{"ports":[{"nodePort":31000}]}`:                                     `{"ports":[{"nodePort":32000}]}`,
		"metadata:\n  name: made-abcde\n  resourceVersion: \"207\"\n":        "metadata:\n  name: made-vwxyz\n  resourceVersion: \"9\"\n",
		`{"z":1,"a":"207"}`: `{"z":1,"a":"207"}`,
	}
	for body, want := range bodies {
		if got := string(m.RewriteBody([]byte(body))); got != want {
			t.Errorf("body %s: got %s, want %s", body, got, want)
		}
	}
}

func TestReplaceVolatile(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "a", recordedUID, `{"uid":"` + recordedUID + `","at":"2026-11-20T19:25:11.5+01:00"}`, "x" + recordedUID + "y,10.96.0.1.",
		"é10.96.0.1é", "_10.96.0.1 a10.96.0.1 -10.96.0.1", "(kube-api-access-abcde) kube-api-access-abcdef",
		strings.Repeat("0A", 64) + "\n" + strings.Repeat("0A", 65), "Bearer eyJhbGci.eyJpc3Mi.{signature}; eyJhbGci",
	} {
		want := volatile.ReplaceAllString(text, "…")
		if got := withoutVolatile(text, "…"); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestMayBeVolatile(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"": false, "a": false, `{"metadata":{"name":"pods-x","namespace":"pods-vc"},"n":12345}`: false,
		"at " + recordedUID: true, "2026-11-20T19:25:11Z": true, "2026-11-20T19:25:11.123456+01:00": true,
		"to 10.96.0.1.": true, "kube-api-access-abcde": true, strings.Repeat("0A", 64): true,
	} {
		if got := mayBeVolatile(text); got != want || volatile.MatchString(text) && !got {
			t.Errorf("mayBeVolatile(%q) = %t, want %t; volatile matches: %t", text, got, want, volatile.MatchString(text))
		}
	}
}
