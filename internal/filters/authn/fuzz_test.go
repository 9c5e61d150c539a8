package authn

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"slices"
	"strings"
	"testing"
)

// FuzzSubject checks that the user of any certificate has a non-empty name and no groups other than
// the groups of the certificate and system:authenticated.
func FuzzSubject(f *testing.F) {
	for _, name := range []pkix.Name{
		{CommonName: "jane", Organization: []string{"devs", "ops"}},
		{CommonName: "jane", ExtraNames: []pkix.AttributeTypeAndValue{{Type: uidAttribute, Value: "u"}, {Type: uidAttribute, Value: "u"}}},
		{},
	} {
		der, err := asn1.Marshal(name.ToRDNSequence())
		if err != nil {
			f.Fatal(err)
		}
		f.Add(der)
	}
	f.Fuzz(func(t *testing.T, der []byte) {
		var sequence pkix.RDNSequence
		if _, err := asn1.Unmarshal(der, &sequence); err != nil {
			t.Skip()
		}
		cert := &x509.Certificate{Raw: der}
		cert.Subject.FillFromRDNSequence(&sequence)
		user, err := userOf(cert)
		if user == nil {
			return
		}
		groups := slices.DeleteFunc(slices.Clone(user.Groups), func(g string) bool { return slices.Contains(cert.Subject.Organization, g) })
		if err != nil || user.Name == "" || user.Name != cert.Subject.CommonName || len(groups) > 1 || len(groups) == 1 && groups[0] != "system:authenticated" {
			t.Errorf("user of the subject %q: %+v, error %v", cert.Subject, user, err)
		}
	})
}

// FuzzStaticTokens checks that only tokens in the file are accepted, for any content of the file.
func FuzzStaticTokens(f *testing.F) {
	f.Add("abc,jane,u,\"a,b\"\n", "abc")
	f.Add("# comment\n,,\n\"", "")
	f.Fuzz(func(t *testing.T, file, token string) {
		tokens, err := ParseStaticTokens([]byte(file))
		if err != nil {
			return
		}
		user, err := tokens.User(t.Context(), token)
		if err != nil || user != nil && (token == "" || !strings.Contains(strings.ReplaceAll(file, "\"\"", "\""), token) && !strings.ContainsAny(token, "\r\n")) {
			t.Errorf("%q of %q: %+v, %v", token, file, user, err)
		}
	})
}
