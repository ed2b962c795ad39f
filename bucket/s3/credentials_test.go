package s3_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tenure-go/tenure/bucket/s3"
)

// identities is a server that gives out credentials as Amazon's do: the security
// token service, an instance's metadata, and a container's agent.
func identities(t *testing.T) string {
	end := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	document := func(id string) string {
		return fmt.Sprintf(`{"Code":"Success","Type":"AWS-HMAC","AccessKeyId":%q,"SecretAccessKey":"s","Token":"t","Expiration":%q}`, id, end)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/": // AssumeRoleWithWebIdentity
			if r.FormValue("WebIdentityToken") == "token of the pod" {
				fmt.Fprintf(w, "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>"+
					"<AccessKeyId>WEBIDENTITY</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken>"+
					"<Expiration>%s</Expiration></Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>", end)
			}
		case "/latest/api/token":
			w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "21600")
			fmt.Fprint(w, "metadata-token")
		case "/latest/meta-data/iam/security-credentials/":
			fmt.Fprint(w, "role")
		case "/latest/meta-data/iam/security-credentials/role":
			fmt.Fprint(w, document("INSTANCE"))
		case "/container":
			fmt.Fprint(w, document("CONTAINER"))
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// The standard chain of credentials, one link at a time.
func TestCredentialChain(t *testing.T) {
	dir, identity := t.TempDir(), identities(t)
	config := writeFile(t, dir, "config", "[profile fleet]\nregion = eu-north-1\n")
	credentials := writeFile(t, dir, "credentials", "[fleet]\naws_access_key_id = PROFILE\naws_secret_access_key = s\n")
	token := writeFile(t, dir, "token", "token of the pod")
	for _, c := range []struct {
		id, region string
		env        map[string]string
	}{
		{"ENVIRONMENT", "us-east-1", map[string]string{"AWS_ACCESS_KEY_ID": "ENVIRONMENT", "AWS_SECRET_ACCESS_KEY": "s"}},
		{"PROFILE", "eu-north-1", map[string]string{"AWS_PROFILE": "fleet", "AWS_CONFIG_FILE": config, "AWS_SHARED_CREDENTIALS_FILE": credentials}},
		{"WEBIDENTITY", "eu-west-1", map[string]string{
			"AWS_REGION": "eu-west-1", "AWS_WEB_IDENTITY_TOKEN_FILE": token, "AWS_ROLE_ARN": "arn:aws:iam::1:role/fleet", "AWS_ENDPOINT_URL_STS": identity,
		}},
		{"CONTAINER", "us-east-1", map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": identity + "/container"}},
		{"INSTANCE", "us-east-1", map[string]string{"AWS_EC2_METADATA_SERVICE_ENDPOINT": identity}},
	} {
		t.Run(c.id, func(t *testing.T) {
			without(t, dir)
			for name, value := range c.env {
				t.Setenv(name, value)
			}
			var signed, session string
			s := script(t, func(w http.ResponseWriter, r *http.Request) {
				signed, session = r.Header.Get("Authorization"), r.Header.Get("X-Amz-Security-Token")
				w.Header().Set("ETag", `"v"`)
			})
			b := open(t, s3.Options{Bucket: "fleet", Endpoint: s.URL, PathStyle: true})
			_, err := b.Create(t.Context(), "k", nil)
			if err != nil || !strings.Contains(signed, "Credential="+c.id+"/") || !strings.Contains(signed, "/"+c.region+"/s3/") {
				t.Errorf("signed %q, %v; want it signed by %s for %s", signed, err, c.id, c.region)
			}
			if temporary := c.id != "ENVIRONMENT" && c.id != "PROFILE"; temporary != (session == "t") {
				t.Errorf("session token %q", session)
			}
		})
	}
}

// Without any the error says where they were looked for, and nothing was sent.
func TestNoCredentials(t *testing.T) {
	without(t, t.TempDir())
	s := script(t, says(500, ""))
	b := open(t, s3.Options{Bucket: "fleet", Endpoint: s.URL, PathStyle: true})
	_, err := b.Create(t.Context(), "k", nil)
	if err == nil || !strings.Contains(err.Error(), "no AWS credentials") || s.requests.Load() != 0 {
		t.Errorf("error %v, %d requests", err, s.requests.Load())
	}
}

// without hides what this machine has.
func without(t *testing.T, dir string) {
	for _, name := range []string{
		"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE",
		"AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN", "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
		"AWS_EC2_METADATA_DISABLED",
	} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_CONFIG_FILE", dir+"/none")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", dir+"/none")
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:1") // nobody
}
