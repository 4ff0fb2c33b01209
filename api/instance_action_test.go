package api_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestActionTrail(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.active()
	stop := c.act(t, member, id, `{"os-stop":null}`).ok(202).header.Get("x-compute-request-id")
	create := string(c.starter.ops()[0].ID)
	c.exec(`UPDATE operations SET accepted_at = '2026-11-20 12:00:00.25+00', updated_at = '2026-11-20 12:01:00+00', state = 'failed', message = 'why' WHERE id = $1`, stop)
	c.exec(`INSERT INTO operation_events (operation_id, event, host_id, host, started_at, finished_at, result, details)
		VALUES ($1, 'claim_host', NULL, NULL, '2026-11-20 12:00:01+00', '2026-11-20 12:00:02+00', 'Success', NULL),
		       ($1, 'stop_domain', $2, 'node-1', '2026-11-20 12:00:03+00', NULL, 'Error', 'the guest hangs')`, stop, c.host)
	path := "/servers/" + id + "/os-instance-actions"
	item := fmt.Sprintf(`{"action":"stop","instance_uuid":%q,"request_id":%q,"user_id":"user-member","project_id":%q,
		"start_time":"2026-11-20T12:00:00.250000","message":"Error"`, id, stop, project)
	list := c.do(t, member, "GET", path, "").ok(200)
	require.JSONEq(t, item+"}", encode(t, list.get("instanceActions", 0)))
	require.Equal(t, "create", list.get("instanceActions", 1, "action"))
	require.Nil(t, list.get("instanceActions", 1, "message"))

	show := func(as who, version string) answer { return c.do(t, as, "GET", path+"/"+stop, "", at(version)) }
	show(member, "2.50").is(200, `{"instanceAction":`+item+`}}`)
	const first = `"event":"stop_domain","start_time":"2026-11-20T12:00:03.000000","finish_time":null,"result":"Error"`
	const second = `"event":"claim_host","start_time":"2026-11-20T12:00:01.000000","finish_time":"2026-11-20T12:00:02.000000","result":"Success"`
	show(member, "2.51").is(200, `{"instanceAction":`+item+`,"events":[{`+first+`},{`+second+`}]}}`)
	show(admin, "2.1").is(200, `{"instanceAction":`+item+`,"events":[{`+first+`,"traceback":"the guest hangs"},{`+second+`,"traceback":null}]}}`)
	const updated, hash = `,"updated_at":"2026-11-20T12:01:00.000000"`, `"c56f911bba4dcc5f36ff36d585028d57e052f1703b5f190e233fd0f9"`
	show(member, "2.84").is(200, `{"instanceAction":`+item+updated+`,"events":[{`+first+`,"hostId":`+hash+`},{`+second+`,"hostId":""}]}}`)
	show(admin, "2.84").is(200, `{"instanceAction":`+item+updated+`,"events":[
		{`+first+`,"traceback":"the guest hangs","hostId":`+hash+`,"host":"node-1","details":"the guest hangs"},
		{`+second+`,"traceback":null,"hostId":"","host":null,"details":null}]}}`)
	c.do(t, member, "GET", path+"/req-nothing", "").fails(404, "itemNotFound", "Action req-nothing not found")

	page := c.do(t, member, "GET", path+"?limit=1", "", at("2.58")).ok(200)
	require.Len(t, page.get("instanceActions"), 1)
	require.Equal(t, "http://cloud.example:8774/v2.1"+path+"?limit=1&marker="+stop, page.get("links", 0, "href"))
	page = c.do(t, member, "GET", path+"?limit=1&marker="+stop, "", at("2.58")).ok(200)
	require.Equal(t, create, page.get("instanceActions", 0, "request_id"))
	require.NotContains(t, c.do(t, member, "GET", path+"?marker="+create, "", at("2.58")).ok(200).keys(), "links")
	require.Len(t, c.do(t, member, "GET", path+"?limit=1", "", at("2.57")).ok(200).get("instanceActions"), 2)
	require.Len(t, c.do(t, member, "GET", path+"?changes-before=2026-11-20T12:01:00Z", "", at("2.66")).ok(200).get("instanceActions"), 1)
	require.Empty(t, c.do(t, member, "GET", path+"?changes-since=2999-01-01T00:00:00Z", "", at("2.58")).ok(200).get("instanceActions"))
	c.do(t, member, "GET", path+"?changes-before=2026-11-20T12:01:00Z", "", at("2.65")).ok(400)
	c.do(t, member, "GET", path+"?marker=req-nothing", "", at("2.58")).fails(400, "badRequest", "Marker req-nothing could not be found.")
}

func encode(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return string(text)
}
