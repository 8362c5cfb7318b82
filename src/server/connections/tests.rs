use std::thread::sleep;

use super::*;

fn add(connections: &Arc<Connections>, most: usize) -> Option<Slot> {
    // So that each of them has waited for longer than the next one.
    sleep(Duration::from_millis(2));
    connections.add(most)
}

fn is_open(slot: &Slot) -> bool {
    slot.of.open().by_number.contains_key(&slot.number)
}

/// A connection that had a response and is idle.
fn served(connections: &Arc<Connections>, most: usize) -> Slot {
    let slot = add(connections, most).unwrap();
    drop(slot.connection.begin());
    slot
}

/// A connection with a request whose body does not arrive.
fn stalled(connections: &Arc<Connections>, most: usize) -> (Slot, Arc<InFlight>) {
    let slot = add(connections, most).unwrap();
    let request = slot.connection.begin();
    (slot, request)
}

#[test]
fn the_connection_that_has_waited_for_its_client_for_longest_makes_room() {
    let connections = Arc::default();
    let stalled: Vec<_> = (0..4).map(|_| stalled(&connections, 4)).collect();
    let first = served(&connections, 4);
    let second = served(&connections, 4);
    let open: Vec<bool> = stalled.iter().map(|(slot, _)| is_open(slot)).collect();
    assert_eq!(open, [false, false, true, true]);
    assert!(is_open(&first) && is_open(&second));
}

#[test]
fn clients_that_have_just_begun_make_room_for_each_other_while_few_connections_are_idle() {
    let connections = Arc::default();
    let idle = served(&connections, 3);
    let silent = add(&connections, 3).unwrap();
    let (stalled, _request) = stalled(&connections, 3);
    let _fourth = add(&connections, 3).unwrap();
    assert!(!is_open(&silent) && is_open(&idle) && is_open(&stalled));
}

#[test]
fn idle_connections_make_room_where_they_are_most() {
    let connections = Arc::default();
    let (first, second) = (served(&connections, 3), served(&connections, 3));
    let silent = add(&connections, 3).unwrap();
    let fourth = served(&connections, 3);
    assert!(!is_open(&first) && is_open(&second) && is_open(&silent) && is_open(&fourth));
    sleep(STALLED);
    let _fifth = add(&connections, 3).unwrap();
    assert!(!is_open(&silent) && is_open(&second), "a client that stalls goes first");
}

#[test]
fn a_review_that_waits_for_memory_for_its_response_stays() {
    let connections = Arc::default();
    let (slot, request) = stalled(&connections, 1);
    request.waits_for_server();
    let mut waiting = std::pin::pin!(request.pause(std::future::pending::<()>()));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    assert!(add(&connections, 1).is_none());
    assert!(is_open(&slot));
}

#[test]
fn a_connection_whose_request_waits_for_the_server_stays() {
    let connections = Arc::default();
    let (first, request) = stalled(&connections, 2);
    let (second, other) = stalled(&connections, 2);
    request.waits_for_server();
    other.waits_for_server();
    assert!(add(&connections, 2).is_none());
    request.waits_for_client();
    assert!(add(&connections, 2).is_some());
    assert!(!is_open(&first) && is_open(&second));
}

#[test]
fn only_connections_whose_client_takes_long_are_evicted_for_memory() {
    let connections = Arc::default();
    let (sending, _first) = stalled(&connections, 8);
    let (working, request) = stalled(&connections, 8);
    request.waits_for_server();
    let (new, idle) = (add(&connections, 8).unwrap(), served(&connections, 8));
    connections.evict_stalled();
    assert!(is_open(&sending), "it has not taken long");
    sleep(STALLED);
    let (recent, _second) = stalled(&connections, 8);
    connections.evict_stalled();
    assert!(!is_open(&sending));
    assert!([&working, &new, &idle, &recent].into_iter().all(is_open));
}

#[test]
fn a_body_that_arrives_fast_keeps_its_memory() {
    let connections = Arc::default();
    let ((fast, request), (slow, _other)) = (stalled(&connections, 2), stalled(&connections, 2));
    request.has_received(1 << 20);
    sleep(STALLED);
    connections.evict_stalled();
    assert!(is_open(&fast) && !is_open(&slow));
    // The next transfer on the connection begins anew.
    request.waits_for_client();
    sleep(STALLED);
    connections.evict_stalled();
    assert!(!is_open(&fast));
}
