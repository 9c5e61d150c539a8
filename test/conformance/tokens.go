package conformance

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"
)

// tokenPattern matches JSON Web Tokens. In recordings, the text {signature} replaces signatures, so recorded
// tokens are identified by their claims.
const tokenPattern = `\beyJ[\w-]+\.eyJ[\w-]+\.[\w{}-]+`

var token = regexp.MustCompile(`^` + tokenPattern + `$`)

// tokenStep returns the name of the step whose response contains the token that a recording calls name. It
// returns "" if name is not the name of a token.
func tokenStep(name string) string {
	switch name {
	case "{token of a-tok/default}", reviewedToken:
		return "token request with defaults"
	case "{token bound to pod p}":
		return "bound to the pod"
	}
	return ""
}

// reviewedToken is the name of the token in the body of a TokenReview.
const reviewedToken = "{the token}"

// brokenSignature is the name of the step that sends an earlier token with an invalid signature.
const brokenSignature = "token review: broken signature"

// tokenOf returns the token in the recorded response of tokenStep(name).
func tokenOf(scenario Scenario, name string) (string, error) {
	for _, step := range scenario.Steps {
		if step.Name != tokenStep(name) {
			continue
		}
		var liveResponse struct{ Status struct{ Token string } }
		if err := json.Unmarshal(step.Response.Body, &liveResponse); err != nil {
			return "", fmt.Errorf("read the token of step %d: %w", step.Number, err)
		}
		return liveResponse.Status.Token, nil
	}
	return "", fmt.Errorf("scenario %s has no step %q", scenario.Name, tokenStep(name))
}

// withTokens returns the headers of a step in which names of tokens are replaced with the recorded tokens.
func withTokens(scenario Scenario, headers map[string]string) (map[string]string, error) {
	name, bearer := strings.CutPrefix(headers["Authorization"], "Bearer ")
	if !bearer || tokenStep(name) == "" {
		return headers, nil
	}
	recorded, err := tokenOf(scenario, name)
	if err != nil {
		return nil, err
	}
	headers = maps.Clone(headers)
	headers["Authorization"] = "Bearer " + recorded
	return headers, nil
}

// reviewOf returns the body of a TokenReview for the token that a recording calls name.
func reviewOf(scenario Scenario, name string) ([]byte, error) {
	recorded, err := tokenOf(scenario, name)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","spec":{"token":%q}}`, recorded), nil
}

// breakSignatures changes the first byte of each token signature in a body.
func breakSignatures(body []byte) []byte {
	return regexp.MustCompile(tokenPattern).ReplaceAllFunc(body, func(whole []byte) []byte {
		signature := whole[bytes.LastIndexByte(whole, '.')+1:]
		broken := byte('A')
		if signature[0] == broken {
			broken = 'B'
		}
		signature[0] = broken
		return whole
	})
}

// sameToken reports whether two tokens have the same claims. If so, it records the live token for use in later
// requests.
func (m *Memory) sameToken(want, got string) bool {
	wanted, err := tokenClaims(want)
	if err != nil {
		return false
	}
	claims, err := tokenClaims(got)
	if err != nil {
		return false
	}
	c := &Comparison{Memory: m}
	c.Values("", wanted, claims)
	if _, known := m.loose[want]; !known {
		m.Learn(want, got)
	}
	return len(c.Differences) == 0
}

// tokenClaims returns the claims of a token. Times are relative to the time of issue, in seconds.
func tokenClaims(text string) (map[string]any, error) {
	_, payload, _ := strings.Cut(text, ".")
	payload, _, _ = strings.Cut(payload, ".")
	data, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil {
		return nil, fmt.Errorf("read a token: %w", err)
	}
	value, err := decodeJSON(data)
	if err != nil {
		return nil, err
	}
	claims, _ := value.(map[string]any)
	issued, _ := claims["iat"].(json.Number)
	for _, name := range []string{"exp", "nbf", "iat"} {
		if at, ok := claims[name].(json.Number); ok {
			claims[name] = since(issued, at)
		}
	}
	return claims, nil
}

func since(issued, at json.Number) json.Number {
	from, _ := issued.Int64() // 0 if the claim is missing
	to, _ := at.Int64()
	return json.Number(strconv.FormatInt(to-from, 10))
}
